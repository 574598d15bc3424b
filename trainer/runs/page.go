package runs

import (
	"bytes"
	"crypto/sha256"
	_ "embed" // of the page
	"encoding/base64"
	"encoding/json"
	"io"
	"strings"
	"sync"
)

// The page has no part outside itself. Its script and its style stand in files of their own; data are
// JSON in an element that is no script, in which encoding/json has escaped <, > and &.
var (
	//go:embed page.html
	pageHTML string
	//go:embed page.css
	pageCSS string
	//go:embed page.js
	pageJS string
)

// policy is the Content-Security-Policy of the page but for connections: its own script and style run,
// and nothing else is loaded.
var policy = sync.OnceValue(func() string {
	return "default-src 'none'; script-src '" + digest(pageJS) + "'; style-src '" + digest(pageCSS) +
		"'; img-src data:; base-uri 'none'; form-action 'none'"
})

// digest returns the source expression of an inline element.
func digest(text string) string {
	sum := sha256.Sum256([]byte(text))
	return "sha256-" + base64.StdEncoding.EncodeToString(sum[:])
}

// writePage writes a page that shows runs.
func writePage(w io.Writer, views []*view) error {
	data, err := json.Marshal(views)
	if err != nil {
		return err
	}
	return fillPage(w, policy(), data)
}

// LivePage returns the page that package live serves, and its Content-Security-Policy. It has no data:
// it reads the updates of a subscription from the address events, and posts to the address control.
func LivePage() (html []byte, contentSecurityPolicy string) {
	csp := policy() + "; connect-src 'self'; frame-ancestors 'none'"
	var b bytes.Buffer
	_ = fillPage(&b, policy()+"; connect-src 'self'", []byte("null")) // a Buffer has no errors
	return b.Bytes(), csp
}

// fillPage writes the page with a policy and data.
func fillPage(w io.Writer, policy string, data []byte) error {
	_, err := strings.NewReplacer("{{policy}}", policy, "{{style}}", pageCSS, "{{data}}", string(data), "{{script}}", pageJS).WriteString(w, pageHTML)
	return err
}
