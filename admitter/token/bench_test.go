package token

import "testing"

// benchmark runs f once for each algorithm, with an Authority that remembers size tokens, and a token of its own.
func benchmark(b *testing.B, size int, f func(b *testing.B, a *Authority, tok string)) {
	for _, key := range testKeys(b).list {
		b.Run(key.method.Alg(), func(b *testing.B) {
			a := New(only(b, testKeys(b), key.id), Config{Now: atNoon, CacheSize: size})
			tok := mustSign(b, a, admitted())
			b.ReportAllocs()
			b.ResetTimer()
			f(b, a, tok)
		})
	}
}

func verifyLoop(b *testing.B, a *Authority, tok string) {
	for b.Loop() {
		if _, err := a.Verify("spring-tour", tok); err != nil {
			b.Fatal(err)
		}
	}
}

// To reach: at most 1 us per token seen before.
func BenchmarkVerify_Seen(b *testing.B) { benchmark(b, 0, verifyLoop) }

func BenchmarkVerify_New(b *testing.B) { benchmark(b, -1, verifyLoop) }

func BenchmarkVerify_SeenParallel(b *testing.B) {
	benchmark(b, 0, func(b *testing.B, a *Authority, tok string) {
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				if _, err := a.Verify("spring-tour", tok); err != nil {
					b.Fatal(err)
				}
			}
		})
	})
}

func BenchmarkSign(b *testing.B) {
	benchmark(b, 0, func(b *testing.B, a *Authority, _ string) {
		for b.Loop() {
			if _, err := a.Sign(admitted()); err != nil {
				b.Fatal(err)
			}
		}
	})
}
