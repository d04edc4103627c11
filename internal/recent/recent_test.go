package recent

import (
	"strconv"
	"sync"
	"testing"
)

func TestCache_RemembersForgetsAndClears(t *testing.T) {
	c := New[string, int](10)
	if v, ok := c.Get("a"); ok || v != 0 {
		t.Fatalf("Get of an unknown key = %d, %v; want 0, false", v, ok)
	}
	c.Put("a", 1)
	c.Put("a", 2)
	c.Put("b", 3)
	if v, ok := c.Get("a"); !ok || v != 2 {
		t.Fatalf("Get(a) = %d, %v; want the last value put, 2", v, ok)
	}
	c.Delete("a")
	if _, ok := c.Get("a"); ok {
		t.Fatal("a is remembered after Delete")
	}
	if _, ok := c.Get("b"); !ok {
		t.Fatal("deleting a forgot b too")
	}
	c.Clear()
	if _, ok := c.Get("b"); ok {
		t.Fatal("b is remembered after Clear")
	}
}

func TestCache_NeverHoldsMoreThanItsBound(t *testing.T) {
	for _, max := range []int{1, 2, 3, 10, 101} {
		c := New[int, int](max)
		for i := range 1000 {
			c.Put(i, i)
			c.Get(i - max/2) // renewals must not break the bound either
			if held := len(c.young) + len(c.old); held > max+max%2 {
				t.Fatalf("max %d: %d entries after %d puts", max, held, i+1)
			}
			if v, ok := c.Get(i); !ok || v != i {
				t.Fatalf("max %d: Get(%d) right after Put = %d, %v", max, i, v, ok)
			}
		}
	}
}

func TestCache_KeepsWhatIsUsedAndForgetsWhatIsNot(t *testing.T) {
	c := New[int, string](100)
	c.Put(-1, "used")
	c.Put(-2, "unused")
	for i := range 1000 {
		c.Put(i, "")
		if v, ok := c.Get(-1); !ok || v != "used" {
			t.Fatalf("after %d other entries an entry read each time is gone", i+1)
		}
	}
	if _, ok := c.Get(-2); ok {
		t.Fatal("an entry unused for 1000 others is still remembered")
	}
}

// A key put anew while an older value of it waits in the old generation must never show the older one.
func TestCache_OldValueNeverComesBack(t *testing.T) {
	c := New[int, int](4)
	c.Put(1, 10)
	c.Put(2, 0)
	c.Put(3, 0) // 1 and 2 are old now
	c.Put(1, 11)
	if v, _ := c.Get(1); v != 11 {
		t.Fatalf("Get(1) = %d, want 11", v)
	}
	c.Delete(1)
	if v, ok := c.Get(1); ok {
		t.Fatalf("Get(1) after Delete = %d, from the old generation", v)
	}
}

func TestCache_OfNothingRemembersNothing(t *testing.T) {
	for _, max := range []int{0, -1, -1 << 63} {
		c := New[string, int](max)
		c.Put("a", 1)
		if _, ok := c.Get("a"); ok {
			t.Fatalf("New(%d) remembers", max)
		}
	}
}

func TestCache_IsSafeForConcurrentUse(t *testing.T) {
	c := New[int, string](64)
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			for i := range 2000 {
				k := (i*7 + g) % 200
				switch i % 16 {
				case 0:
					c.Delete(k)
				case 1:
					if g == 0 {
						c.Clear()
					}
				case 2, 3, 4:
					c.Put(k, strconv.Itoa(k))
				default:
					if v, ok := c.Get(k); ok && v != strconv.Itoa(k) {
						t.Errorf("Get(%d) = %q", k, v)
					}
				}
			}
		})
	}
	wg.Wait()
}

func BenchmarkCache_Get(b *testing.B) {
	c := New[string, int](1 << 16)
	for i := range 1 << 14 {
		c.Put(strconv.Itoa(i), i)
	}
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			c.Get("4711")
		}
	})
}
