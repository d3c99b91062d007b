package transport

import (
	"net"

	"golang.org/x/net/ipv4"
)

// batchMax is the maximum number of datagrams of one system call.
const batchMax = 64

// udpLink sends and receives several datagrams with one system call (sendmmsg, recvmmsg).
type udpLink struct {
	socket *net.UDPConn
	// batch works for both address families, because a connected socket needs no addresses.
	batch         *ipv4.PacketConn
	out, in       []ipv4.Message
	outVec, inVec [batchMax][1][]byte
}

func newUDPLink(socket *net.UDPConn) link {
	l := &udpLink{
		socket: socket,
		batch:  ipv4.NewPacketConn(socket),
		out:    make([]ipv4.Message, batchMax),
		in:     make([]ipv4.Message, batchMax),
	}
	// One byte more than the longest packet, so that a longer one is noticed.
	memory := make([]byte, batchMax*(PacketBytesMax+1))
	for i := range batchMax {
		l.inVec[i][0] = memory[i*(PacketBytesMax+1) : (i+1)*(PacketBytesMax+1)]
		l.in[i].Buffers = l.inVec[i][:]
		l.out[i].Buffers = l.outVec[i][:]
	}
	return l
}

func (l *udpLink) send(packets [][]byte) error {
	var failure error
	for len(packets) > 0 {
		count := min(len(packets), batchMax)
		for i, packet := range packets[:count] {
			l.outVec[i][0] = packet
		}
		sent, err := l.batch.WriteBatch(l.out[:count], 0)
		if err != nil {
			// The first datagram could not be sent, or an earlier one was refused: it counts as lost.
			failure, sent = err, max(sent, 1)
		}
		packets = packets[sent:]
	}
	return failure
}

func (l *udpLink) receive(each func([]byte)) error {
	count, err := l.batch.ReadBatch(l.in, 0)
	for i := range max(count, 0) {
		if n := l.in[i].N; n <= PacketBytesMax {
			each(l.inVec[i][0][:n])
		}
	}
	return err
}

func (l *udpLink) close() error { return l.socket.Close() }
