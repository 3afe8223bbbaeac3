package figure

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"html"
	"slices"
	"strings"
)

// Note is a line about a figure that its file carries unseen, such as the command that made it: a
// text chunk of a PNG (ISO 15948, iTXt), metadata of an SVG, a comment at the end of a PDF. Key has 1
// to 79 letters of ASCII.
type Note struct {
	Key, Text string
}

func annotate(format string, file []byte, notes []Note) []byte {
	if len(notes) == 0 {
		return file
	}
	var b bytes.Buffer
	at := len(file)
	switch format {
	case "png":
		at = 8 + 25 // after the signature and IHDR
		for _, n := range notes {
			b.Write(textChunk(n))
		}
	case "svg":
		start := bytes.Index(file, []byte("<svg"))
		at = start + bytes.IndexByte(file[start:], '>') + 1
		b.WriteString("\n<metadata>\n")
		for _, n := range notes {
			b.WriteString(html.EscapeString(n.Key+": "+oneLine(n.Text)) + "\n")
		}
		b.WriteString("</metadata>")
	default:
		for _, n := range notes {
			b.WriteString("% " + n.Key + ": " + oneLine(n.Text) + "\n")
		}
	}
	return slices.Concat(file[:at], b.Bytes(), file[at:])
}

// textChunk is a chunk of uncompressed UTF-8 text.
func textChunk(n Note) []byte {
	body := "iTXt" + n.Key + "\x00\x00\x00\x00\x00" + n.Text
	chunk := append(binary.BigEndian.AppendUint32(nil, uint32(len(body)-4)), body...)
	return binary.BigEndian.AppendUint32(chunk, crc32.ChecksumIEEE([]byte(body)))
}

func oneLine(s string) string { return strings.NewReplacer("\n", " ", "\r", " ").Replace(s) }
