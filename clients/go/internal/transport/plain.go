package transport

import (
	"context"
	"errors"
	"os"
	"time"

	lineside "github.com/lineside/lineside/clients/go"
)

// plainPause is the time after which a datagram without a native header is sent again for the first time.
const plainPause = 20 * time.Millisecond

// Plain exchanges datagrams of a format without request ids. It uses a socket of its own, so that a late reply to an
// earlier request cannot be taken for the reply to this one. With once, the datagram is sent only once.
//
// Errors: those of [Conn.Exchange].
func Plain(ctx context.Context, server string, packet []byte, once bool, options *lineside.Options,
	accept func([]byte) Verdict) error {
	socket, err := dialSocket(ctx, server)
	if err != nil {
		return err
	}
	defer socket.Close()
	stop := context.AfterFunc(ctx, func() { _ = socket.SetReadDeadline(time.Unix(1, 0)) })
	defer stop()
	begin := time.Now()
	end := begin.Add(options.CallTimeout())
	if deadline, ok := ctx.Deadline(); ok && deadline.Before(end) {
		end = deadline
	}
	failure := &lineside.TimeoutError{Server: server}
	reply := make([]byte, PacketBytesMax+1)
	for pause := plainPause; time.Now().Before(end); pause = min(2*pause, maxPause) {
		if _, err := socket.Write(packet); err != nil {
			failure.Err = err
		}
		until := end
		if resendAt := time.Now().Add(pause); !once && resendAt.Before(end) {
			until = resendAt
		}
		for {
			if err := socket.SetReadDeadline(until); err != nil {
				return err
			}
			if err := ctx.Err(); err != nil && !errors.Is(err, context.DeadlineExceeded) {
				return err
			}
			n, err := socket.Read(reply)
			switch {
			case errors.Is(err, os.ErrDeadlineExceeded):
			case err != nil:
				failure.Err = err
				wait(ctx, time.Until(until))
			default:
				switch accept(reply[:n]) {
				case Done:
					return nil
				case Busy:
					failure.Busy = true
					wait(ctx, time.Until(until))
				}
				continue
			}
			break
		}
		if once {
			break
		}
	}
	if err := ctx.Err(); err != nil && !errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	failure.Waited = time.Since(begin)
	return failure
}

func wait(ctx context.Context, pause time.Duration) {
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
