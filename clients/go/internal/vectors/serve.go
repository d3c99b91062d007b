package vectors

import (
	"bytes"
	"encoding/binary"
	"net"
	"sync"
	"testing"
)

// idAt is the offset of the request id in the native header.
const idAt = 8

// Server is a false server that knows one request and its reply, those of a vector.
type Server struct {
	socket, stranger *net.UDPConn
	mu               sync.Mutex
	request, reply   []byte
	got              []byte
}

// Serve starts a false server, which ends with the test.
func Serve(t testing.TB) *Server {
	t.Helper()
	s := &Server{}
	for _, socket := range []**net.UDPConn{&s.socket, &s.stranger} {
		opened, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
		if err != nil {
			t.Fatal(err)
		}
		*socket = opened
		t.Cleanup(func() { opened.Close() })
	}
	go s.answer()
	return s
}

// Address returns the address of the server.
func (s *Server) Address() string { return s.socket.LocalAddr().String() }

// Expect sets the request that the server knows, and its reply.
func (s *Server) Expect(request, reply []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.request, s.reply, s.got = bytes.Clone(request), bytes.Clone(reply), nil
}

// Other returns the first request since Expect that was another one, nil if there was none. The id is not compared.
func (s *Server) Other() []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.got
}

// answer answers every request. Before each right reply it sends lies, which a client must ignore: each differs from
// the right reply in one thing.
func (s *Server) answer() {
	buffer := make([]byte, 4096)
	for {
		n, client, err := s.socket.ReadFromUDP(buffer)
		if err != nil {
			return
		}
		got := bytes.Clone(buffer[:n])
		s.mu.Lock()
		request, reply := bytes.Clone(s.request), bytes.Clone(s.reply)
		isNative := len(got) >= 16 && len(request) >= 16 && request[0] == 'L' && request[1] == 'S'
		if isNative {
			copy(request[idAt:16], got[idAt:16])
			copy(reply[idAt:16], got[idAt:16])
		}
		isKnown := bytes.Equal(got, request)
		if !isKnown && s.got == nil {
			s.got = got
		}
		s.mu.Unlock()
		if !isKnown {
			continue
		}
		if isNative {
			for _, lie := range lies(reply) {
				s.socket.WriteToUDP(lie, client)
			}
			// The right header from another address, with another content.
			s.stranger.WriteToUDP(changed(reply, func(lie []byte) {
				for i := 16; i < len(lie); i++ {
					lie[i] ^= 0xff
				}
			}), client)
		}
		s.socket.WriteToUDP(reply, client)
	}
}

func changed(reply []byte, change func([]byte)) []byte {
	copied := bytes.Clone(reply)
	change(copied)
	return copied
}

func lies(reply []byte) [][]byte {
	return [][]byte{
		{},
		reply[:15],
		append(bytes.Clone(reply), 0),
		changed(reply, func(lie []byte) { lie[0]++ }),
		changed(reply, func(lie []byte) { lie[3] &^= 0x80 }),
		changed(reply, func(lie []byte) { lie[3]++ }),
		changed(reply, func(lie []byte) { lie[15]++ }),
		changed(reply, func(lie []byte) { binary.BigEndian.PutUint16(lie[6:], binary.BigEndian.Uint16(lie[6:])+1) }),
	}
}
