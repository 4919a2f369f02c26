use std::hint::black_box;

#[inline(always)]
fn square(x: f64) -> f64 {
    x * x
}

#[inline(always)]
fn step(x: f64, k: i32) -> f64 {
    let y = square(x) + f64::from(k);
    y.sqrt()
}

struct Walk {
    values: Vec<f64>,
}

impl Walk {
    #[inline(never)]
    fn run(&mut self, rounds: i32) -> f64 {
        let mut sum = 0.0;
        for k in 0..rounds {
            for x in self.values.iter_mut() {
                *x = step(*x, k);
                sum += *x;
            }
        }
        sum
    }
}

fn main() {
    let rounds = std::env::args().nth(1).map_or(1, |text| text.parse().unwrap());
    let mut walk = Walk { values: vec![1.5; 4096] };
    println!("{}", black_box(walk.run(black_box(rounds))));
}
