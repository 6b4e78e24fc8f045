//! Prints the GPUs of this machine and how fast data moves between them:
//! `cargo run -p motet-cuda --example measure`.

#![allow(clippy::print_stdout, reason = "an example prints")]

use motet_cuda::{Cuda, CudaError, Figure, Options, Place};

fn main() -> Result<(), CudaError> {
    let cuda = match Cuda::load() {
        Ok(cuda) => cuda,
        Err(error) => {
            println!("{error}");
            return Ok(());
        }
    };
    let (major, minor) = cuda.version();
    println!("driver for CUDA {major}.{minor}");
    for gpu in cuda.gpus()? {
        println!("gpu {}  {}  sm {}  {}", gpu.index, gpu.bus_id, gpu.sm, gpu.name);
    }
    println!("{:>6} {:>6} {:>12} {:>12}  way", "from", "to", "GB/s", "latency");
    cuda.measure(&Options::default(), &mut |it: &Figure| {
        let (from, to) = (name(it.from), name(it.to));
        let way = if it.direct { "direct" } else { "through the host" };
        let rate = it.bandwidth.as_gb_per_s_f64();
        println!("{from:>6} {to:>6} {rate:>12.2} {:>12}  {way}", it.latency.to_string());
    })?;
    Ok(())
}

fn name(place: Place) -> String {
    match place {
        Place::Host => "host".to_owned(),
        Place::Gpu(index) => format!("gpu{index}"),
    }
}
