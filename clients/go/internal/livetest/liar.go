package livetest

import (
	"net"
	"testing"

	lineside "github.com/lineside/lineside/clients/go"
	"github.com/lineside/lineside/clients/go/internal/layout"
)

// Lie returns the status and the body of the reply to a request of the native format; false means that the server does
// not reply. The server calls it for one request after the other.
type Lie func(op byte, body []byte) (status lineside.Status, reply []byte, isReply bool)

// StartLiar starts a false server whose replies have a right header, and any status and body. It returns the address.
// The server ends with the test.
func StartLiar(t testing.TB, lie Lie) string {
	t.Helper()
	socket, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		buffer := make([]byte, 2048)
		for {
			n, client, err := socket.ReadFromUDP(buffer)
			if err != nil {
				return
			}
			if n < layout.NativeHeaderBytes {
				continue
			}
			var header layout.NativeHeader
			header.Decode(buffer)
			status, reply, isReply := lie(header.Op, buffer[layout.NativeHeaderBytes:n])
			if !isReply {
				continue
			}
			header.Op |= layout.NativeReplyBit
			header.Status, header.Length = uint16(status), uint16(len(reply))
			_, _ = socket.WriteToUDP(append(header.Append(nil), reply...), client)
		}
	}()
	t.Cleanup(func() {
		_ = socket.Close()
		<-ended
	})
	return socket.LocalAddr().String()
}
