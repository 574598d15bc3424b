package live

import (
	"crypto/sha256"
	"crypto/subtle"
	"net"
	"net/http"
	"net/url"
	"strings"
)

// guard answers only requests to this host and from its own pages, and adds headers of security.
func (s *Server) guard(next http.Handler) http.Handler {
	// A request that changes something and comes from another origin, by Sec-Fetch-Site or Origin.
	protection := http.NewCrossOriginProtection()
	return protection.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		h.Set("Cache-Control", "no-store")
		if !s.known(r.Host) {
			http.Error(w, "the host is not that of this server: use the address that the program has printed", http.StatusMisdirectedRequest)
			return
		}
		// A link to the page may stand anywhere.
		if site := r.Header.Get("Sec-Fetch-Site"); (site == "cross-site" || site == "same-site") && r.URL.Path != "/" {
			http.Error(w, "pages of other origins are not answered", http.StatusForbidden)
			return
		}
		if origin := r.Header.Get("Origin"); origin != "" {
			if u, err := url.Parse(origin); err != nil || u.Host != r.Host {
				http.Error(w, "pages of other origins are not answered", http.StatusForbidden)
				return
			}
		}
		next.ServeHTTP(w, r)
	}))
}

// known reports whether a request may call the server by that host: any IP address, since a page of
// another origin gets here only by a name that it rebinds to this address; or one of its names.
func (s *Server) known(host string) bool {
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	host = strings.Trim(name(host), "[]")
	return s.hosts[host] || net.ParseIP(host) != nil
}

// authorized answers only requests with the token.
func (s *Server) authorized(next http.HandlerFunc) http.HandlerFunc {
	want := sha256.Sum256([]byte(s.token))
	return func(w http.ResponseWriter, r *http.Request) {
		scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
		if !strings.EqualFold(scheme, "Bearer") {
			_, token, _ = r.BasicAuth()
		}
		got := sha256.Sum256([]byte(token))
		if subtle.ConstantTimeCompare(got[:], want[:]) != 1 { // of sums: the time says nothing about the length either
			w.Header().Set("WWW-Authenticate", "Bearer")
			http.Error(w, "the token is missing or wrong: use the address that the program has printed", http.StatusUnauthorized)
			return
		}
		trust(r.Context())
		next(w, r)
	}
}
