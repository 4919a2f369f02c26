// Writes all profiles of Go's runtime into the current folder: cpu, heap, allocs, goroutine, block, mutex, threadcreate.
package main

import (
	"context"
	"os"
	"runtime"
	"runtime/pprof"
	"sync"
	"time"
)

var kept [][]byte

func spin(duration time.Duration) int {
	sum := 0
	for start := time.Now(); time.Since(start) < duration; {
		for i := 0; i < 1000; i++ {
			sum += i * i
		}
	}
	return sum
}

func allocate() {
	for i := 0; i < 3000; i++ {
		kept = append(kept, make([]byte, 10000))
	}
}

func write(name string) *os.File {
	file, err := os.Create(name + ".prof")
	if err != nil {
		panic(err)
	}
	return file
}

func main() {
	runtime.SetBlockProfileRate(1)
	runtime.SetMutexProfileFraction(1)
	file := write("cpu")
	pprof.StartCPUProfile(file)
	pprof.Do(context.Background(), pprof.Labels("request", "a"), func(context.Context) { spin(300 * time.Millisecond) })
	var mutex sync.Mutex
	var group sync.WaitGroup
	for i := 0; i < 4; i++ {
		group.Add(1)
		go func() {
			defer group.Done()
			for j := 0; j < 30; j++ {
				mutex.Lock()
				spin(500 * time.Microsecond)
				mutex.Unlock()
			}
		}()
	}
	group.Wait()
	allocate()
	pprof.StopCPUProfile()
	file.Close()
	runtime.GC()
	for _, name := range []string{"heap", "allocs", "goroutine", "block", "mutex", "threadcreate"} {
		file := write(name)
		pprof.Lookup(name).WriteTo(file, 0)
		file.Close()
	}
}
