//go:build linux

package main

import (
	"encoding/binary"
	"fmt"
	"os"
	"runtime"

	"golang.org/x/sys/unix"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "own-cost: give the socket's path")
		os.Exit(2)
	}
	if err := serve(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "own-cost:", err)
		os.Exit(1)
	}
}

// serve answers all clients in one thread, as they come.
func serve(path string) error {
	runtime.LockOSThread()
	listener, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("create a socket: %w", err)
	}
	if err := unix.Bind(listener, &unix.SockaddrUnix{Name: path}); err != nil {
		return fmt.Errorf("bind it to %s: %w", path, err)
	}
	if err := unix.Listen(listener, 128); err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	epoll, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return fmt.Errorf("create an epoll: %w", err)
	}
	watch := func(fd int) error {
		return unix.EpollCtl(epoll, unix.EPOLL_CTL_ADD, fd, &unix.EpollEvent{Events: unix.EPOLLIN, Fd: int32(fd)})
	}
	if err := watch(listener); err != nil {
		return fmt.Errorf("watch the socket: %w", err)
	}
	fmt.Println("listening")

	sessions := map[int]*session{}
	events := make([]unix.EpollEvent, 64)
	buffer := make([]byte, 64<<10)
	for {
		n, err := unix.EpollWait(epoll, events, -1)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return fmt.Errorf("wait: %w", err)
		}
		for _, e := range events[:n] {
			fd := int(e.Fd)
			if fd == listener {
				fd, _, err := unix.Accept4(listener, unix.SOCK_CLOEXEC)
				if err != nil {
					return fmt.Errorf("accept: %w", err)
				}
				sessions[fd] = &session{}
				if err := watch(fd); err != nil {
					return fmt.Errorf("watch a client: %w", err)
				}
				continue
			}
			s := sessions[fd]
			n, err := unix.Read(fd, buffer)
			if err != nil || n == 0 || !s.take(buffer[:n]) {
				unix.Close(fd)
				delete(sessions, fd)
				continue
			}
			if len(s.out) > 0 {
				// A client that has gone shows at the next read.
				_, _ = unix.SendmsgN(fd, s.out, nil, nil, unix.MSG_NOSIGNAL)
				s.out = s.out[:0]
			}
		}
	}
}

// session is one client.
type session struct {
	begun bool   // the start-up message has come
	in    []byte // of a message that is not whole yet
	out   []byte
}

// Codes in place of a protocol version.
const (
	cancelRequest = 80877102
	sslRequest    = 80877103
	gssRequest    = 80877104
)

// take answers what has come into out; false: the client is done.
func (s *session) take(b []byte) bool {
	if len(s.in) > 0 {
		s.in = append(s.in, b...)
		b = s.in
	}
	for {
		head := 1 // the kind; the start-up message has none
		if !s.begun {
			head = 0
		}
		if len(b) < head+4 {
			break
		}
		size := head + int(binary.BigEndian.Uint32(b[head:]))
		if len(b) < size {
			break
		}
		if !s.begun {
			if size < 8 {
				return false
			}
			switch binary.BigEndian.Uint32(b[4:]) {
			case sslRequest, gssRequest:
				s.out = append(s.out, 'N')
			case cancelRequest:
				return false
			default:
				s.begun = true
				s.out = append(s.out, greeting...)
			}
		} else {
			switch b[0] {
			case 'Q':
				s.out = append(s.out, simpleAnswer...)
			case 'P':
				s.out = append(s.out, parseComplete...)
			case 'B':
				s.out = append(s.out, bindComplete...)
			case 'D':
				s.out = append(s.out, rowDescription...)
			case 'E':
				s.out = append(s.out, row...)
			case 'C':
				s.out = append(s.out, closeComplete...)
			case 'S':
				s.out = append(s.out, ready...)
			case 'H':
			default: // X among them
				return false
			}
		}
		b = b[size:]
	}
	s.in = append(s.in[:0], b...)
	return true
}

// message is one of the server's.
func message(kind byte, body string) string {
	return string(binary.BigEndian.AppendUint32([]byte{kind}, uint32(len(body)+4))) + body
}

var (
	parseComplete = message('1', "")
	bindComplete  = message('2', "")
	closeComplete = message('3', "")
	ready         = message('Z', "I")
	// One column of type integer, as SELECT 1 has it.
	rowDescription = message('T', "\x00\x01?column?\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x17\x00\x04\xff\xff\xff\xff\x00\x00")
	row            = message('D', "\x00\x01\x00\x00\x00\x011") + message('C', "SELECT 1\x00")
	simpleAnswer   = rowDescription + row + ready
	greeting       = message('R', "\x00\x00\x00\x00") +
		message('S', "server_version\x0015.0\x00") +
		message('S', "server_encoding\x00UTF8\x00") +
		message('S', "client_encoding\x00UTF8\x00") +
		message('S', "standard_conforming_strings\x00on\x00") +
		message('S', "integer_datetimes\x00on\x00") +
		message('K', "\x00\x00\x00\x01\x00\x00\x00\x01") + ready
)
