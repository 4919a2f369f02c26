function fib(n) { return n < 2 ? n : fib(n - 1) + fib(n - 2); }
function busy(ms) { const end = Date.now() + ms; let s = 0; while (Date.now() < end) s += fib(18); return s; }
busy(60);
