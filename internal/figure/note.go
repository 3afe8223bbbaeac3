package figure

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"strings"
)

// Note is a line about a figure that its file carries unseen, such as the command that made it: a
// text chunk of a PNG (ISO 15948, iTXt), metadata of an SVG, a comment at the end of a PDF. Key has 1
// to 79 letters of ASCII.
type Note struct {
	Key, Text string
}

// annotate adds notes to a file of the format.
func annotate(format string, file []byte, notes []Note) []byte {
	if len(notes) == 0 {
		return file
	}
	var b bytes.Buffer
	switch format {
	case "png":
		const header = 8 + 25 // the signature and IHDR
		b.Write(file[:header])
		for _, n := range notes {
			b.Write(textChunk(n))
		}
		b.Write(file[header:])
	case "svg":
		at := bytes.Index(file, []byte("<svg"))
		end := at + bytes.IndexByte(file[at:], '>') + 1
		b.Write(file[:end])
		b.WriteString("\n<metadata>")
		escape := strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;")
		for _, n := range notes {
			b.WriteString("\n" + escape.Replace(n.Key+": "+oneLine(n.Text)))
		}
		b.WriteString("\n</metadata>")
		b.Write(file[end:])
	default:
		b.Write(file)
		for _, n := range notes {
			b.WriteString("% " + n.Key + ": " + oneLine(n.Text) + "\n")
		}
	}
	return b.Bytes()
}

// textChunk is a chunk of uncompressed UTF-8 text.
func textChunk(n Note) []byte {
	body := "iTXt" + n.Key + "\x00\x00\x00\x00\x00" + n.Text
	chunk := binary.BigEndian.AppendUint32(nil, uint32(len(body)-4))
	chunk = append(chunk, body...)
	return binary.BigEndian.AppendUint32(chunk, crc32.ChecksumIEEE([]byte(body)))
}

// oneLine is the text without line breaks.
func oneLine(s string) string { return strings.NewReplacer("\n", " ", "\r", " ").Replace(s) }
