//! [`Followers`]: who waits for whom, for passes over all jobs in the order of waiting.

/// Who waits for each job, in compressed rows.
#[derive(Debug)]
pub(super) struct Followers {
    start: Vec<u32>,
    jobs: Vec<u32>,
    /// How many each job waits for.
    pub(super) awaited: Vec<u32>,
}

impl Followers {
    /// Of `(job, awaited job)`.
    pub(super) fn of(count: usize, waits: &[(u32, u32)]) -> Self {
        let mut start = vec![0u32; count + 1];
        let mut awaited = vec![0u32; count];
        for (job, before) in waits {
            start[*before as usize + 1] += 1;
            awaited[*job as usize] += 1;
        }
        for job in 0..count {
            start[job + 1] += start[job];
        }
        let mut next = start.clone();
        let mut jobs = vec![0u32; waits.len()];
        for (job, before) in waits {
            jobs[next[*before as usize] as usize] = *job;
            next[*before as usize] += 1;
        }
        Self { start, jobs, awaited }
    }

    pub(super) fn of_job(&self, job: u32) -> &[u32] {
        let job = job as usize;
        &self.jobs[self.start[job] as usize..self.start[job + 1] as usize]
    }

    /// Jobs after all they wait for. Jobs that wait for each other are left out.
    pub(super) fn topological(&self) -> Vec<u32> {
        let mut left = self.awaited.clone();
        let ready = |it: &u32| self.awaited[*it as usize] == 0;
        let mut order: Vec<u32> = (0..left.len() as u32).filter(ready).collect();
        let mut next = 0;
        while let Some(job) = order.get(next).copied() {
            next += 1;
            for follower in self.of_job(job) {
                left[*follower as usize] -= 1;
                if left[*follower as usize] == 0 {
                    order.push(*follower);
                }
            }
        }
        order
    }
}
