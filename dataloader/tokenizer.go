package dataloader

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Tokenizer turns text into token numbers. Encode appends them to dst. It must be safe for concurrent
// use.
type Tokenizer interface {
	Encode(dst []int32, text string) ([]int32, error)
}

// TokenizerFunc is a function that is a Tokenizer.
type TokenizerFunc func(dst []int32, text string) ([]int32, error)

// Encode calls f.
func (f TokenizerFunc) Encode(dst []int32, text string) ([]int32, error) { return f(dst, text) }

// Bytes is a Tokenizer with one token for each byte, 0 to 255, plus First.
type Bytes struct {
	First int32 // number of the byte 0: leaves numbers for padding and other marks
}

// Encode implements Tokenizer.
func (b Bytes) Encode(dst []int32, text string) ([]int32, error) {
	if b.First < 0 || b.First > math.MaxInt32-255 {
		return dst, fmt.Errorf("bytes: first %d: must be 0 to %d: %w", b.First, math.MaxInt32-255, ErrOption)
	}
	for i := range len(text) {
		dst = append(dst, b.First+int32(text[i]))
	}
	return dst, nil
}

// Limits of a vocabulary.
const (
	maxWords     = 1 << 24
	maxWordBytes = 1 << 16
)

// Vocabulary is a Tokenizer with one token for each word: a run of letters, marks, digits, "_" and
// "'", or any other single character that is no space. Words are compared as they are written.
type Vocabulary struct {
	words   map[string]int32
	list    []string
	unknown int32
}

// ReadVocabulary reads a vocabulary, one word a line, the first of which is token 0. unknown is the
// word that stands for all others, such as "[UNK]"; "": a word that is not in the vocabulary is an error
// of Encode that wraps ErrField. name names the input in errors. An empty or repeated line, bad UTF-8,
// a line of more than 64 KiB and more than 16 million words are a *FormatError with the byte offset. It
// stops at these limits whatever the size of the input.
func ReadVocabulary(r io.Reader, name, unknown string) (*Vocabulary, error) {
	v := &Vocabulary{words: map[string]int32{}, unknown: -1}
	in := bufio.NewReaderSize(r, maxWordBytes+2)
	offset := int64(0)
	for {
		line, err := in.ReadSlice('\n')
		at := offset
		offset += int64(len(line))
		bad := func(want, got string) error {
			return &FormatError{File: name, Offset: at, What: fmt.Sprintf("line %d", len(v.list)+1), Want: want, Got: got}
		}
		if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, bufio.ErrBufferFull) {
			return nil, fmt.Errorf("%s at byte %d: %w", name, offset, err)
		}
		if len(line) == 0 && err != nil {
			break
		}
		word := string(bytes.TrimSuffix(bytes.TrimSuffix(line, []byte("\n")), []byte("\r")))
		switch before, repeated := v.words[word]; {
		case errors.Is(err, bufio.ErrBufferFull) || len(word) > maxWordBytes:
			return nil, bad(fmt.Sprintf("a word of at most %d bytes", maxWordBytes), "a longer line")
		case word == "":
			return nil, bad("a word", "an empty line")
		case !utf8.ValidString(word):
			return nil, bad("UTF-8", "other bytes")
		case repeated:
			return nil, bad("a new word", fmt.Sprintf("%q of line %d", word, before+1))
		case len(v.list) == maxWords:
			return nil, bad(fmt.Sprintf("at most %d words", maxWords), "more")
		}
		v.words[word] = int32(len(v.list))
		v.list = append(v.list, word)
	}
	if len(v.list) == 0 {
		return nil, &FormatError{File: name, What: "vocabulary", Want: "a word", Got: "nothing"}
	}
	if unknown != "" {
		i, ok := v.words[unknown]
		if !ok {
			return nil, &FormatError{File: name, Offset: offset, What: "vocabulary", Want: fmt.Sprintf("the word %q", unknown), Got: "none"}
		}
		v.unknown = i
	}
	return v, nil
}

// Len returns the number of words.
func (v *Vocabulary) Len() int { return len(v.list) }

// Word returns the word of a token, "" if there is none.
func (v *Vocabulary) Word(token int32) string {
	if token < 0 || int(token) >= len(v.list) {
		return ""
	}
	return v.list[token]
}

// Encode implements Tokenizer.
func (v *Vocabulary) Encode(dst []int32, text string) ([]int32, error) {
	for {
		text = strings.TrimLeftFunc(text, unicode.IsSpace)
		if text == "" {
			return dst, nil
		}
		n := strings.IndexFunc(text, func(r rune) bool { return !inWord(r) })
		switch n {
		case -1:
			n = len(text)
		case 0:
			_, n = utf8.DecodeRuneInString(text)
		}
		token, ok := v.words[text[:n]]
		if !ok {
			if token = v.unknown; token < 0 {
				return dst, fmt.Errorf("word %q is not in the vocabulary: add it, or name a word for unknown ones: %w", text[:n], ErrField)
			}
		}
		dst = append(dst, token)
		text = text[n:]
	}
}

// inWord reports whether a rune is part of a longer word.
func inWord(r rune) bool {
	return unicode.IsLetter(r) || unicode.IsMark(r) || unicode.IsDigit(r) || r == '_' || r == '\''
}

// Tokenize returns the tokens of texts as sequences of int32, in memory. An error of the tokenizer is
// returned with the number of the text.
func Tokenize(name string, texts []string, t Tokenizer) (*Sequences, error) {
	if t == nil {
		return nil, fmt.Errorf("tokenize %q: no tokenizer: %w", name, ErrOption)
	}
	s := &Sequences{name: name, element: Field{Name: name, Type: typeOf[int32]()}, starts: []int{0}}
	if p := s.element.check(); p != "" {
		return nil, &FieldError{Name: name, Problem: p}
	}
	var all []int32
	for i, text := range texts {
		more, err := t.Encode(all, text)
		if err != nil {
			return nil, fmt.Errorf("tokenize %q: text %d: %w", name, i, err)
		}
		if len(more) < len(all) {
			return nil, fmt.Errorf("tokenize %q: text %d: Encode returned less than it got: it must append: %w", name, i, ErrOption)
		}
		all = more
		s.starts = append(s.starts, len(all))
	}
	s.data = bytesOf(all)
	return s, nil
}
