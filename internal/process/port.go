package process

import (
	"errors"
	"math/rand/v2"
	"net"
	"strconv"
)

// ErrPortTaken means another process took the port between our look and the server's own.
var ErrPortTaken = errors.New("process: port taken")

// Ports are drawn from below the range from which Linux and macOS take the ports of outgoing connections,
// so that a server that was killed finds its port free when it is restarted.
const (
	firstPort = 11000
	lastPort  = 21999
)

// FreePort returns a port of 127.0.0.1 on which nothing listens now, nor on the ports that lie higher by
// each of also.
func FreePort(also ...int) (int, error) {
	const tries = 200
	for range tries {
		if port := firstPort + rand.IntN(lastPort-firstPort+1); unused(port, also) {
			return port, nil
		}
	}
	return 0, errors.New("process: no free port")
}

func unused(port int, also []int) bool {
	for _, offset := range append([]int{0}, also...) {
		l, err := net.Listen("tcp", Local(port+offset))
		if err != nil || l.Close() != nil {
			return false
		}
	}
	return true
}

// Local is the address of a port of this machine, which only this machine reaches.
func Local(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }
