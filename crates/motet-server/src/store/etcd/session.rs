//! [`Session`]: one term of leadership in etcd, from the election to its end.

use std::time::Duration;

use motet_control::protocol::Registration;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::{Certificate, Channel, ClientTlsConfig, Endpoint, Identity};
use tonic::{Code, Response, Status};
use tracing::warn;

use super::EtcdConfig;
use super::election::election_client::ElectionClient;
use super::election::{CampaignRequest, LeaderKey};
use super::rpc::compare::{CompareTarget, TargetUnion};
use super::rpc::kv_client::KvClient;
use super::rpc::lease_client::LeaseClient;
use super::rpc::range_request::SortOrder;
use super::rpc::request_op::Request;
use super::rpc::{
    Compare, DeleteRangeRequest, KeyValue, LeaseGrantRequest, LeaseKeepAliveRequest,
    LeaseRevokeRequest, PutRequest, RangeRequest, RangeResponse, RequestOp, TxnRequest,
};
use crate::record::Record;
use crate::store::{Batch, RECENT, Saved, StoreError};

/// The most batches of the journal that are read at once.
const PAGE: i64 = 200;
/// Old records are dropped when the numbers pass a multiple of this.
const LOT: u64 = 10_000;
/// The time-out for one answer of etcd.
const ANSWER: Duration = Duration::from_secs(5);
/// How long a failed request is tried again. If some of several servers are gone, each attempt may reach
/// another one.
const AGAIN: Duration = Duration::from_secs(3);
/// The pause before a failed request is tried again.
const PAUSE: Duration = Duration::from_millis(100);
/// The interval of keep-alive pings to silent servers. It must be more than 5 s, or etcd closes the
/// connection.
const ALIVE: Duration = Duration::from_secs(10);

/// One term of leadership.
pub(super) struct Session {
    kv: KvClient<Channel>,
    leases: LeaseClient<Channel>,
    leader: LeaderKey,
    prefix: String,
    place: String,
    journal: u64,
    alive: tokio::task::JoinHandle<()>,
}

impl Session {
    /// Waits to be elected. The second value is whether it had to wait, for another service or for etcd.
    pub(super) async fn lead(
        config: &EtcdConfig,
        journal: u64,
    ) -> Result<(Self, bool), StoreError> {
        let place = config.endpoints.join(", ");
        let channel = channel(config).map_err(|it| failed(&place, it))?;
        let leases = LeaseClient::new(channel.clone());
        let mut waited = false;
        loop {
            let grant = tried(&place, || {
                let mut leases = leases.clone();
                let request = LeaseGrantRequest { ttl: config.lease.max(2) };
                async move { leases.lease_grant(request).await }
            });
            let grant = match grant.await {
                Ok(grant) => grant,
                // etcd was reachable before, so keep waiting for it too.
                Err(error) if waited => {
                    warn!("{error}");
                    continue;
                }
                Err(error) => return Err(error),
            };
            let ttl = grant.ttl.max(2).unsigned_abs();
            let alive = tokio::spawn(keep_alive(leases.clone(), grant.id, ttl));
            match campaign(config, &channel, grant.id, &mut waited).await {
                Ok(Some(leader)) => {
                    let (kv, prefix) = (KvClient::new(channel), config.prefix.clone());
                    return Ok((
                        Self { kv, leases, leader, prefix, place, journal, alive },
                        waited,
                    ));
                }
                Ok(None) => {
                    alive.abort();
                    return Err(failed(&place, "it names no leader"));
                }
                Err(status) => {
                    alive.abort();
                    let never =
                        [Code::PermissionDenied, Code::Unauthenticated, Code::Unimplemented];
                    if never.contains(&status.code()) {
                        return Err(failed(&place, status.message()));
                    }
                    warn!("{}; asks for the lead again", failed(&place, status.message()));
                    waited = true;
                    tokio::time::sleep(PAUSE).await;
                }
            }
        }
    }

    /// Gives up the lead at once, instead of leaving it until the lease expires.
    pub(super) async fn resign(&mut self) {
        self.alive.abort();
        let revoke = self.leases.lease_revoke(LeaseRevokeRequest { id: self.leader.lease });
        // If etcd does not receive this, the lease expires by itself.
        let _ = tokio::time::timeout(ANSWER, revoke).await;
    }

    pub(super) async fn load(&self) -> Result<Saved, StoreError> {
        let mut jobs = Vec::new();
        for pair in self.all("jobs/", "").await? {
            jobs.push(self.decoded::<Registration>(&pair.value)?);
        }
        let recent = self.records(None, RECENT).await?;
        let next = recent.last().map_or(0, |it| it.number + 1);
        Ok(Saved::new(jobs, &recent, next, 0))
    }

    pub(super) async fn commit(&mut self, batch: &Batch) -> Result<(), StoreError> {
        let mut success = Vec::new();
        let mut put = |key: String, value: Vec<u8>| {
            let request = Request::RequestPut(PutRequest { key: key.into_bytes(), value });
            success.push(RequestOp { request: Some(request) });
        };
        for job in &batch.put {
            let key = format!("{}/jobs/{:020}", self.prefix, job.job.0);
            put(key, serde_json::to_vec(job).map_err(|it| failed(&self.place, it))?);
        }
        if let Some(first) = batch.records.first() {
            let value = serde_json::to_vec(&batch.records).map_err(|it| failed(&self.place, it))?;
            put(format!("{}/journal/{:020}", self.prefix, first.number), value);
        }
        let mut delete = |key: String, range_end: String| {
            let (key, range_end) = (key.into_bytes(), range_end.into_bytes());
            let request = Request::RequestDeleteRange(DeleteRangeRequest { key, range_end });
            success.push(RequestOp { request: Some(request) });
        };
        for job in &batch.remove {
            delete(format!("{}/jobs/{:020}", self.prefix, job.0), String::new());
        }
        if let (Some(first), Some(last)) = (batch.records.first(), batch.records.last())
            && first.number / LOT != (last.number + 1) / LOT
        {
            let keep = last.number.saturating_sub(self.journal);
            let all = |number: u64| format!("{}/journal/{number:020}", self.prefix);
            delete(all(0), all(keep));
        }
        if success.is_empty() {
            return Ok(());
        }
        let leads = Compare {
            result: 0,
            target: CompareTarget::Create.into(),
            key: self.leader.key.clone(),
            target_union: Some(TargetUnion::CreateRevision(self.leader.rev)),
        };
        let request = TxnRequest { compare: vec![leads], success };
        let answer = tokio::time::timeout(ANSWER, self.kv.txn(request)).await;
        let answer = answer.map_err(|_| failed(&self.place, "it does not answer"))?;
        let answer = answer.map_err(|it| failed(&self.place, it.message()))?;
        if answer.into_inner().succeeded {
            return Ok(());
        }
        Err(StoreError {
            place: self.place.clone(),
            problem: "another controller leads by now".to_owned(),
            remedy: "this one ends; started again it waits for its turn",
            lost: true,
        })
    }

    /// The records from that number on, or the last ones. They are stored by batches, so some are read in
    /// excess and dropped.
    pub(super) async fn records(
        &self,
        from: Option<u64>,
        most: usize,
    ) -> Result<Vec<Record>, StoreError> {
        let Some(from) = from else {
            let (mut records, mut end) = (Vec::new(), None);
            // From the end, a page at a time.
            loop {
                let page = self.page("journal/", end.as_deref(), SortOrder::Descend).await?;
                end = page.last().map(|it| it.key.clone());
                for pair in &page {
                    let mut batch: Vec<Record> = self.decoded(&pair.value)?;
                    batch.append(&mut records);
                    records = batch;
                }
                if page.is_empty() || records.len() >= most {
                    let extra = records.len().saturating_sub(most);
                    records.drain(..extra);
                    return Ok(records);
                }
            }
        };
        // A batch that began before `from` may contain later records, so all batches are read.
        let mut records = Vec::new();
        for pair in self.all("journal/", "").await? {
            let batch: Vec<Record> = self.decoded(&pair.value)?;
            records.extend(batch.into_iter().filter(|it| it.number >= from));
            if records.len() >= most {
                break;
            }
        }
        records.truncate(most);
        Ok(records)
    }

    fn decoded<T: serde::de::DeserializeOwned>(&self, bytes: &[u8]) -> Result<T, StoreError> {
        serde_json::from_slice(bytes).map_err(|it| failed(&self.place, it))
    }

    /// All pairs below a key, in ascending order.
    async fn all(&self, below: &str, from: &str) -> Result<Vec<KeyValue>, StoreError> {
        let mut key = format!("{}/{below}{from}", self.prefix).into_bytes();
        let range_end = after(&format!("{}/{below}", self.prefix));
        let mut all = Vec::new();
        loop {
            let sort_order = SortOrder::Ascend.into();
            let range_end = range_end.clone();
            let request = RangeRequest { key: key.clone(), range_end, limit: PAGE, sort_order };
            let answer = self.range(request).await?;
            all.extend(answer.kvs);
            let Some(last) = all.last().filter(|_| answer.more) else { return Ok(all) };
            key.clone_from(&last.key);
            key.push(0);
        }
    }

    /// Some pairs below a key and before `end`.
    async fn page(
        &self,
        below: &str,
        end: Option<&[u8]>,
        order: SortOrder,
    ) -> Result<Vec<KeyValue>, StoreError> {
        let key = format!("{}/{below}", self.prefix);
        let range_end = end.map_or_else(|| after(&key), <[u8]>::to_vec);
        let (key, sort_order) = (key.into_bytes(), order.into());
        Ok(self.range(RangeRequest { key, range_end, limit: PAGE, sort_order }).await?.kvs)
    }

    async fn range(&self, request: RangeRequest) -> Result<RangeResponse, StoreError> {
        let ask = || {
            let (mut kv, request) = (self.kv.clone(), request.clone());
            async move { kv.range(request).await }
        };
        tried(&self.place, ask).await
    }
}

/// Waits for the lead; `None` if etcd does not name the leader's key.
async fn campaign(
    config: &EtcdConfig,
    channel: &Channel,
    lease: i64,
    waited: &mut bool,
) -> Result<Option<LeaderKey>, Status> {
    let mut election = ElectionClient::new(channel.clone());
    let name = format!("{}/leader", config.prefix).into_bytes();
    let value = format!("motet {}", std::process::id()).into_bytes();
    let campaign = election.campaign(CampaignRequest { name, lease, value });
    tokio::pin!(campaign);
    let answer = match tokio::time::timeout(Duration::from_secs(1), &mut campaign).await {
        Ok(answer) => answer,
        Err(_) => {
            warn!("another controller leads; waits for its place");
            *waited = true;
            campaign.await
        }
    };
    Ok(answer?.into_inner().leader)
}

/// Makes a request to etcd, and repeats it for a while if it fails or is not answered.
async fn tried<T, F>(place: &str, mut ask: impl FnMut() -> F) -> Result<T, StoreError>
where
    F: Future<Output = Result<Response<T>, Status>>,
{
    let again = tokio::time::Instant::now() + AGAIN;
    loop {
        let problem = match tokio::time::timeout(ANSWER, ask()).await {
            Ok(Ok(answer)) => return Ok(answer.into_inner()),
            Ok(Err(status)) => failed(place, status.message()),
            Err(_) => failed(place, "it does not answer"),
        };
        if tokio::time::Instant::now() > again {
            return Err(problem);
        }
        tokio::time::sleep(PAUSE).await;
    }
}

/// The first key after all keys with this prefix.
fn after(prefix: &str) -> Vec<u8> {
    let mut key = prefix.as_bytes().to_vec();
    if let Some(last) = key.last_mut() {
        // Prefixes end in a slash.
        *last += 1;
    }
    key
}

fn failed(place: &str, problem: impl std::fmt::Display) -> StoreError {
    StoreError {
        place: place.to_owned(),
        problem: problem.to_string(),
        remedy: "check that etcd runs and can be reached; the service goes on by itself when it does",
        lost: false,
    }
}

/// Keeps the lease alive by renewing it regularly.
async fn keep_alive(mut leases: LeaseClient<Channel>, id: i64, ttl: u64) {
    let pause = Duration::from_millis(ttl * 1000 / 4);
    loop {
        // etcd does not answer a stream at all before the first request on it, so that is sent first.
        let (out, stream) = mpsc::channel(1);
        let asked = out.try_send(LeaseKeepAliveRequest { id });
        let answers = leases.lease_keep_alive(ReceiverStream::new(stream));
        if let (Ok(()), Ok(Ok(answers))) = (asked, tokio::time::timeout(ANSWER, answers).await) {
            let mut answers = answers.into_inner();
            loop {
                match tokio::time::timeout(ANSWER, answers.message()).await {
                    // A remaining time of zero means that the lease has expired.
                    Ok(Ok(Some(answer))) if answer.ttl <= 0 => return,
                    Ok(Ok(Some(_))) => tokio::time::sleep(pause).await,
                    _ => break,
                }
                if out.send(LeaseKeepAliveRequest { id }).await.is_err() {
                    break;
                }
            }
        }
        tokio::time::sleep(PAUSE).await;
    }
}

fn channel(config: &EtcdConfig) -> Result<Channel, String> {
    let mut endpoints = Vec::new();
    for url in &config.endpoints {
        let endpoint = Endpoint::from_shared(url.clone()).map_err(|it| format!("{url}: {it}"))?;
        let mut endpoint = endpoint
            .connect_timeout(ANSWER)
            .tcp_nodelay(true)
            .http2_keep_alive_interval(ALIVE)
            .keep_alive_timeout(ANSWER)
            .keep_alive_while_idle(true);
        if url.starts_with("https://") {
            endpoint = endpoint.tls_config(tls(config)?).map_err(|it| it.to_string())?;
        }
        endpoints.push(endpoint);
    }
    match endpoints.as_slice() {
        [] => Err("there are no `endpoints`".to_owned()),
        [one] => Ok(one.connect_lazy()),
        _ => Ok(Channel::balance_list(endpoints.into_iter())),
    }
}

fn tls(config: &EtcdConfig) -> Result<ClientTlsConfig, String> {
    let read = |file: &std::path::PathBuf| {
        std::fs::read(file).map_err(|it| format!("{}: {it}", file.display()))
    };
    let mut tls = ClientTlsConfig::new();
    if let Some(file) = &config.ca {
        tls = tls.ca_certificate(Certificate::from_pem(read(file)?));
    }
    if let (Some(certificate), Some(key)) = (&config.certificate, &config.key) {
        tls = tls.identity(Identity::from_pem(read(certificate)?, read(key)?));
    }
    Ok(tls)
}
