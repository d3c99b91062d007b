package transport

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"sync"
	"time"

	lineside "github.com/lineside/lineside/clients/go"
	"github.com/lineside/lineside/clients/go/internal/layout"
)

// StreamPacketBytesMax is the maximum number of bytes of a packet over TCP.
const StreamPacketBytesMax = layout.NativeHeaderBytes + 0xffff

// redialTimeout is the time that an attempt to open a lost connection again may take.
const redialTimeout = 3 * time.Second

// tcpLink carries packets back to back on a connection. When the connection is lost, the next packet opens it again.
// The packets that were sent on the lost connection count as lost, so that their requests are repeated.
type tcpLink struct {
	address string

	mu sync.Mutex
	// opened wakes receive when there is a connection again.
	opened   *sync.Cond
	conn     net.Conn
	isClosed bool
}

// DialTCP opens a connection to the server.
func DialTCP(ctx context.Context, address string, options *lineside.Options) (*Conn, error) {
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	// The name is resolved once: a repeated request must reach the same server.
	link := &tcpLink{address: conn.RemoteAddr().String(), conn: conn}
	link.opened = sync.NewCond(&link.mu)
	return newConn(link.address, link, options), nil
}

// open returns the connection, and opens it if it was lost.
func (l *tcpLink) open() (net.Conn, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.isClosed {
		return nil, net.ErrClosed
	}
	if l.conn == nil {
		conn, err := net.DialTimeout("tcp", l.address, redialTimeout)
		if err != nil {
			return nil, err
		}
		l.conn = conn
		l.opened.Signal()
	}
	return l.conn, nil
}

// lose closes a connection after an error.
func (l *tcpLink) lose(conn net.Conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.conn == conn {
		_ = conn.Close()
		l.conn = nil
	}
}

func (l *tcpLink) send(packets [][]byte) error {
	conn, err := l.open()
	if err != nil {
		return err
	}
	buffers := net.Buffers(append([][]byte(nil), packets...))
	if _, err := buffers.WriteTo(conn); err != nil {
		l.lose(conn)
		return err
	}
	return nil
}

func (l *tcpLink) receive(each func([]byte)) error {
	l.mu.Lock()
	for l.conn == nil && !l.isClosed {
		l.opened.Wait()
	}
	conn := l.conn
	l.mu.Unlock()
	if conn == nil {
		return net.ErrClosed
	}
	var err error
	in := bufio.NewReaderSize(conn, 1<<18)
	packet := make([]byte, StreamPacketBytesMax)
	for {
		header := packet[:layout.NativeHeaderBytes]
		if _, err = io.ReadFull(in, header); err != nil {
			break
		}
		if binary.BigEndian.Uint16(header) != layout.NativeMagic {
			err = errors.New("the server sends something else than packets of Lineside")
			break
		}
		whole := packet[:layout.NativeHeaderBytes+int(binary.BigEndian.Uint16(header[6:]))]
		if _, err = io.ReadFull(in, whole[layout.NativeHeaderBytes:]); err != nil {
			break
		}
		each(whole)
	}
	l.lose(conn)
	return err
}

func (l *tcpLink) close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.isClosed = true
	l.opened.Signal()
	if l.conn == nil {
		return nil
	}
	return l.conn.Close()
}
