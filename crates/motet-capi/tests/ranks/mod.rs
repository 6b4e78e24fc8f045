//! Ranks as threads of one process, at a store of the test's own.

use motet_capi::communicator::serve;
use motet_capi::{Communicator, Options};

/// Runs a job on each of so many ranks.
pub(crate) fn ranks<T: Send>(
    ranks: u32,
    change: impl Fn(&mut Options) + Sync,
    job: impl Fn(Communicator) -> T + Sync,
) -> Vec<T> {
    let store = serve("127.0.0.1:0", "", None).unwrap();
    let address = store.address().to_string();
    std::thread::scope(|scope| {
        let start = |rank| {
            let (address, change, job) = (address.clone(), &change, &job);
            scope.spawn(move || {
                let mut options = Options::new(address, rank, ranks);
                options.store_apart = true;
                options.silence_seconds = 60;
                change(&mut options);
                job(Communicator::join(options).unwrap())
            })
        };
        let threads: Vec<_> = (0..ranks).map(start).collect();
        threads.into_iter().map(|it| it.join().unwrap()).collect()
    })
}
