package crowd
import ("testing";"context";"net/http/httptest";"time";"os";"runtime";"fmt";"syscall";"strings")
func TestZZLoad(t *testing.T) {
	edge := newFakeEdge(); edge.batch=400; edge.limit=5000; edge.poll=10*time.Second
	ctx, cancel := context.WithCancel(t.Context()); defer cancel()
	go edge.run(ctx)
	s := httptest.NewServer(edge); defer s.Close()
	cfg := Default(); cfg.Target=s.URL+"/show/"; cfg.Visitors=20000; cfg.ActiveLimit=5000; cfg.Batch=400; cfg.Progress=os.Stderr
	go func(){ for sleep(ctx, 5*time.Second) { var m runtime.MemStats; runtime.ReadMemStats(&m); b,_:=os.ReadFile("/proc/self/status"); for _,l:=range strings.Split(string(b),"\n"){ if strings.HasPrefix(l,"VmRSS"){fmt.Fprintln(os.Stderr,l)}}; fmt.Fprintf(os.Stderr,"heap %dMB stack %dMB goroutines %d\n", m.HeapInuse>>20, m.StackInuse>>20, runtime.NumGoroutine()) } }()
	r, err := Run(ctx, cfg)
	var u syscall.Rusage; syscall.Getrusage(0,&u)
	fmt.Fprintln(os.Stderr, err, r.Broken(), "cpu", u.Utime.Sec+u.Stime.Sec)
	r.WriteText(os.Stderr)
}
