package proxy

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

const secret = "PROTECTED-BODY"

// origins are real servers, each with a protected file at /tickets/1 and a public one at /static/a.css. They
// are started on a free port.
var origins = map[string]func(t *testing.T, dir string, port int) *exec.Cmd{
	"nginx":   startNginx,
	"apache2": startApache,
	"node":    startNode,
}

// TestPathMatrix sends every spelling of a protected path, with no token, through an edge in front of real
// servers. The protected body never comes back. With a token the plain spelling does, so the test can fail.
func TestPathMatrix(t *testing.T) {
	for name, start := range origins {
		t.Run(name, func(t *testing.T) {
			site := startOrigin(t, name, start)
			for mode, route := range map[string]Route{
				"refuse":     {Room: "r", Paths: []string{"/tickets/"}},
				"gate":       {Room: "r", Paths: []string{"/tickets/"}, Gate: true},
				"whole host": {Room: "r", PublicPaths: []string{"/static/a.css"}},
			} {
				s := newStand(t, site, standConfig{routes: []Route{route}})
				if got := knock(t, s.addr, "/tickets/1", goodToken); !strings.Contains(got, secret) {
					t.Fatalf("%s: with a token: got %q", mode, got)
				}
				if got := knock(t, s.addr, "/static/a.css", ""); statusOf(got) != "200" || !strings.Contains(got, "public") {
					t.Fatalf("%s: public file: got %q", mode, got)
				}
				for _, target := range matrix {
					if got := knock(t, s.addr, target, ""); strings.Contains(got, secret) {
						t.Errorf("%s: %q came through", mode, target)
					}
				}
			}
		})
	}
}

// TestPathMatrix_HasTeeth counts how many spellings reach the protected body when the gate compares the
// beginning of the decoded path, as is usual: if none did, the matrix would prove nothing.
func TestPathMatrix_HasTeeth(t *testing.T) {
	for name, start := range origins {
		t.Run(name, func(t *testing.T) {
			s := newStand(t, startOrigin(t, name, start), standConfig{})
			through := 0
			for _, target := range matrix {
				if strings.HasPrefix(decode(target), "/tickets/") {
					continue // such a gate stops these
				}
				if strings.Contains(knock(t, s.addr, target, ""), secret) {
					through++
				}
			}
			t.Logf("%d spellings pass a gate on the decoded prefix", through)
			if through == 0 {
				t.Error("no spelling passes even a weak gate")
			}
		})
	}
}

func knock(t *testing.T, addr, target, token string) string {
	t.Helper()
	if token != "" {
		token = tokenHeader + ": " + token + "\r\n"
	}
	return askRaw(t, addr, "GET "+target+" HTTP/1.1\r\nHost: a.test\r\n"+token+"Connection: close\r\n\r\n")
}

// startOrigin lays out the files, starts the server and waits until it answers.
func startOrigin(t *testing.T, name string, start func(*testing.T, string, int) *exec.Cmd) string {
	t.Helper()
	dir := t.TempDir()
	for dir := dir; dir != os.TempDir(); dir = filepath.Dir(dir) {
		if err := os.Chmod(dir, 0o755); err != nil { // the server's workers may be another user
			break
		}
	}
	for file, body := range map[string]string{"tickets/1": secret, "static/a.css": "public"} {
		full := filepath.Join(dir, "www", file)
		if err := os.MkdirAll(filepath.Dir(full), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(full, []byte(body), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	port := l.Addr().(*net.TCPAddr).Port
	_ = l.Close()
	cmd := start(t, dir, port)
	var log strings.Builder
	cmd.Stdout, cmd.Stderr = &log, &log
	cmd.WaitDelay = 5 * time.Second
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	exited := make(chan struct{})
	go func() { _ = cmd.Wait(); close(exited) }()
	t.Cleanup(func() {
		_ = cmd.Process.Signal(os.Interrupt)
		select {
		case <-exited:
		case <-time.After(5 * time.Second):
			_ = cmd.Process.Kill()
			<-exited
		}
	})
	url := fmt.Sprintf("http://127.0.0.1:%d", port)
	for range 200 {
		if res, err := http.Get(url + "/static/a.css"); err == nil {
			_, _ = io.Copy(io.Discard, res.Body)
			_ = res.Body.Close()
			return url
		}
		select {
		case <-exited:
			t.Fatalf("%s ended: %s", name, log.String())
		case <-time.After(50 * time.Millisecond):
		}
	}
	t.Fatalf("%s does not answer", name)
	return ""
}

// findProgram skips the test, and says so, where the server is not installed.
func findProgram(t *testing.T, program string) string {
	t.Helper()
	for _, name := range []string{program, "/usr/sbin/" + program} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	t.Skipf("%s is not installed here; the path matrix against it was not run", program)
	return ""
}

func startNginx(t *testing.T, dir string, port int) *exec.Cmd {
	conf := filepath.Join(dir, "nginx.conf")
	writeText(t, conf, fmt.Sprintf(`daemon off; master_process off; pid %[1]s/pid; error_log stderr;
events {}
http {
	access_log off;
	client_body_temp_path %[1]s; proxy_temp_path %[1]s; fastcgi_temp_path %[1]s; uwsgi_temp_path %[1]s; scgi_temp_path %[1]s;
	server { listen 127.0.0.1:%[2]d; root %[1]s/www; }
}`, dir, port))
	return exec.Command(findProgram(t, "nginx"), "-p", dir, "-c", conf)
}

func startApache(t *testing.T, dir string, port int) *exec.Cmd {
	program := findProgram(t, "apache2")
	conf := filepath.Join(dir, "apache.conf")
	writeText(t, conf, fmt.Sprintf(`ServerRoot %[1]s
ServerName a.test
PidFile %[1]s/pid
DefaultRuntimeDir %[1]s
Listen 127.0.0.1:%[2]d
LoadModule mpm_event_module /usr/lib/apache2/modules/mod_mpm_event.so
LoadModule authz_core_module /usr/lib/apache2/modules/mod_authz_core.so
User www-data
Group www-data
ErrorLog /dev/stderr
DocumentRoot %[1]s/www
AllowEncodedSlashes On
<Directory %[1]s/www>
Require all granted
</Directory>
`, dir, port))
	return exec.Command(program, "-X", "-f", conf)
}

func startNode(t *testing.T, dir string, port int) *exec.Cmd {
	return exec.Command(findProgram(t, "node"), filepath.Join("testdata", "router.js"), fmt.Sprint(port))
}

func writeText(t *testing.T, name, text string) {
	t.Helper()
	if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}
