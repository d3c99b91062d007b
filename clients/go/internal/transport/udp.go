package transport

import (
	"context"
	"net"
	"strconv"
	"syscall"

	lineside "github.com/lineside/lineside/clients/go"
)

// errRefused is the system's report that no socket listens at the server's port. The server may be starting.
var errRefused error = syscall.ECONNREFUSED

// WithPort returns the address with the default port if it has none.
func WithPort(address string, port int) string {
	if _, _, err := net.SplitHostPort(address); err == nil {
		return address
	}
	return net.JoinHostPort(address, strconv.Itoa(port))
}

// DialUDP opens a socket that is connected to the server, so that it receives datagrams from its address only.
func DialUDP(ctx context.Context, address string, options *lineside.Options) (*Conn, error) {
	socket, err := dialSocket(ctx, address)
	if err != nil {
		return nil, err
	}
	return newConn(socket.RemoteAddr().String(), newUDPLink(socket), options), nil
}

func dialSocket(ctx context.Context, address string) (*net.UDPConn, error) {
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, "udp", address)
	if err != nil {
		return nil, err
	}
	socket := conn.(*net.UDPConn)
	// Room for the replies to many requests; the system may grant less.
	_ = socket.SetReadBuffer(4 << 20)
	_ = socket.SetWriteBuffer(4 << 20)
	return socket, nil
}
