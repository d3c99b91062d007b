//go:build !linux

package transport

import "net"

// udpLink sends and receives one datagram with each system call.
type udpLink struct {
	socket *net.UDPConn
	buffer [PacketBytesMax + 1]byte
}

func newUDPLink(socket *net.UDPConn) link { return &udpLink{socket: socket} }

func (l *udpLink) send(packets [][]byte) error {
	var failure error
	for _, packet := range packets {
		if _, err := l.socket.Write(packet); err != nil {
			failure = err
		}
	}
	return failure
}

func (l *udpLink) receive(each func([]byte)) error {
	n, err := l.socket.Read(l.buffer[:])
	if err == nil && n <= PacketBytesMax {
		each(l.buffer[:n])
	}
	return err
}

func (l *udpLink) close() error { return l.socket.Close() }
