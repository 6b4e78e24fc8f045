//! [`Session`]: one time of leading, from the election to its end.

use std::time::Duration;

use motet_control::protocol::Registration;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::{Certificate, Channel, ClientTlsConfig, Endpoint, Identity};
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
    LeaseRevokeRequest, PutRequest, RangeRequest, RequestOp, TxnRequest,
};
use crate::record::Record;
use crate::store::{Batch, RECENT, Saved, StoreError};

/// The most batches of the journal that are read at once.
const PAGE: i64 = 200;
/// Old records are dropped when the numbers pass a multiple of this.
const LOT: u64 = 10_000;
/// For one answer of etcd.
const ANSWER: Duration = Duration::from_secs(5);

/// See the [module](self).
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
    /// Waits to be elected. The second is whether it had to wait for another.
    pub(super) async fn lead(
        config: &EtcdConfig,
        journal: u64,
    ) -> Result<(Self, bool), StoreError> {
        let place = config.endpoints.join(", ");
        let channel = channel(config).map_err(|it| failed(&place, it))?;
        let mut leases = LeaseClient::new(channel.clone());
        let grant = leases.lease_grant(LeaseGrantRequest { ttl: config.lease.max(2) });
        let grant = grant.await.map_err(|it| failed(&place, it.message()))?.into_inner();
        let lease = grant.id;
        let alive =
            tokio::spawn(keep_alive(leases.clone(), lease, grant.ttl.max(2).unsigned_abs()));
        let mut election = ElectionClient::new(channel.clone());
        let name = format!("{}/leader", config.prefix).into_bytes();
        let value = format!("motet {}", std::process::id()).into_bytes();
        let campaign = election.campaign(CampaignRequest { name, lease, value });
        tokio::pin!(campaign);
        let soon = tokio::time::timeout(Duration::from_secs(1), &mut campaign).await;
        let (answer, waited) = match soon {
            Ok(answer) => (answer, false),
            Err(_) => {
                warn!("another controller leads; waits for its place");
                (campaign.await, true)
            }
        };
        let leader = answer.map_err(|it| failed(&place, it.message()))?.into_inner().leader;
        let leader = leader.ok_or_else(|| failed(&place, "it names no leader"))?;
        let (kv, prefix) = (KvClient::new(channel), config.prefix.clone());
        Ok((Self { kv, leases, leader, prefix, place, journal, alive }, waited))
    }

    /// Gives the lead away at once, where etcd would wait for the lease to end.
    pub(super) async fn resign(&mut self) {
        self.alive.abort();
        let revoke = self.leases.lease_revoke(LeaseRevokeRequest { id: self.leader.lease });
        // If it does not hear, the lease ends by itself.
        let _ = tokio::time::timeout(ANSWER, revoke).await;
    }

    pub(super) async fn load(&mut self) -> Result<Saved, StoreError> {
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

    /// The records of whole batches, cut to what was asked for.
    pub(super) async fn records(
        &mut self,
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
        // A batch that began before may have records from there on.
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
    async fn all(&mut self, below: &str, from: &str) -> Result<Vec<KeyValue>, StoreError> {
        let mut key = format!("{}/{below}{from}", self.prefix).into_bytes();
        let range_end = after(&format!("{}/{below}", self.prefix));
        let mut all = Vec::new();
        loop {
            let sort_order = SortOrder::Ascend.into();
            let range_end = range_end.clone();
            let request = RangeRequest { key: key.clone(), range_end, limit: PAGE, sort_order };
            let answer = self.kv.range(request).await;
            let answer = answer.map_err(|it| failed(&self.place, it.message()))?.into_inner();
            all.extend(answer.kvs);
            let Some(last) = all.last().filter(|_| answer.more) else { return Ok(all) };
            key.clone_from(&last.key);
            key.push(0);
        }
    }

    /// Some pairs below a key and before `end`.
    async fn page(
        &mut self,
        below: &str,
        end: Option<&[u8]>,
        order: SortOrder,
    ) -> Result<Vec<KeyValue>, StoreError> {
        let key = format!("{}/{below}", self.prefix);
        let range_end = end.map_or_else(|| after(&key), <[u8]>::to_vec);
        let (key, sort_order) = (key.into_bytes(), order.into());
        let answer = self.kv.range(RangeRequest { key, range_end, limit: PAGE, sort_order }).await;
        Ok(answer.map_err(|it| failed(&self.place, it.message()))?.into_inner().kvs)
    }
}

/// The first key after all that begin so.
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

/// Tells etcd again and again that we are there.
async fn keep_alive(mut leases: LeaseClient<Channel>, id: i64, ttl: u64) {
    let pause = Duration::from_millis(ttl * 1000 / 4);
    loop {
        // etcd answers nothing, not even that it listens, before it was asked something.
        let (out, stream) = mpsc::channel(1);
        let asked = out.try_send(LeaseKeepAliveRequest { id });
        let answers = leases.lease_keep_alive(ReceiverStream::new(stream));
        if let (Ok(()), Ok(Ok(answers))) = (asked, tokio::time::timeout(ANSWER, answers).await) {
            let mut answers = answers.into_inner();
            loop {
                match tokio::time::timeout(ANSWER, answers.message()).await {
                    // A time of nothing: the lease has ended, and there is nothing to keep.
                    Ok(Ok(Some(answer))) if answer.ttl <= 0 => return,
                    Ok(Ok(Some(_))) => tokio::time::sleep(pause).await,
                    _ => break,
                }
                if out.send(LeaseKeepAliveRequest { id }).await.is_err() {
                    break;
                }
            }
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}

fn channel(config: &EtcdConfig) -> Result<Channel, String> {
    let mut endpoints = Vec::new();
    for url in &config.endpoints {
        let endpoint = Endpoint::from_shared(url.clone()).map_err(|it| format!("{url}: {it}"))?;
        let mut endpoint = endpoint.connect_timeout(ANSWER).tcp_nodelay(true);
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
