//! The cluster's API server as a scheduler of runs.

use crate::{
    error::{self, answered, failed},
    node,
    object::{self, Plan, RUN, job_sets, name_of, pod_groups},
    state,
    watched::Watched,
};
use k8s_openapi::api::{
    batch::v1::Job,
    core::v1::{Node, Pod},
};
use kube::{
    Api, Client, Resource,
    api::{DeleteParams, PostParams, Preconditions, PropagationPolicy},
    core::DynamicObject,
    runtime::watcher::Config,
};
use rhumb_model::site::Piece;
use rhumb_runtimes::{
    KubernetesQueue, KubernetesSettings, KubernetesWorkload, RuntimeError, Work,
    batch::{Controller, JobState, Mark, SiteJob, Snapshot, Submission},
};
use serde::{Serialize, de::DeserializeOwned};
use std::{
    collections::BTreeMap,
    fmt,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};
use uuid::Uuid;

/// How long the watches may lag behind what was just made before the server is asked for it by name.
const LAG: Duration = Duration::from_secs(5);
/// After what was no answer.
const AGAIN: Duration = Duration::from_secs(1);
/// How often a write is tried again that met another's.
const CONFLICTS: usize = 5;

pub struct Cluster {
    client: Client,
    settings: KubernetesSettings,
    owner: String,
    nodes: Watched<Node>,
    /// Of everybody, on nodes and not over.
    placed: Watched<Pod>,
    /// Ours, whatever became of them.
    jobs: Watched<Job>,
    pods: Watched<Pod>,
    /// What was made and is not seen yet.
    fresh: Mutex<BTreeMap<Uuid, Fresh>>,
}

#[derive(Debug, Clone)]
struct Fresh {
    mark: Mark,
    looked: Instant,
}

impl fmt::Debug for Cluster {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cluster").field("settings", &self.settings).field("owner", &self.owner).finish_non_exhaustive()
    }
}

impl Cluster {
    /// Begins to watch; to be called below a runtime of tokio.
    pub(crate) fn new(client: Client, settings: KubernetesSettings, owner: String) -> Self {
        let ours = || Config::default().labels(RUN);
        let placed = Config::default().fields("spec.nodeName!=,status.phase!=Succeeded,status.phase!=Failed");
        let namespace = &settings.namespace;
        Self {
            nodes: Watched::start(Api::all(client.clone()), (), Config::default(), |node: &mut Node| {
                node.metadata.managed_fields = None;
                if let Some(status) = &mut node.status {
                    status.images = None;
                }
            }),
            placed: Watched::start(Api::all(client.clone()), (), placed, |pod: &mut Pod| {
                pod.metadata.managed_fields = None;
            }),
            jobs: Watched::start(Api::namespaced(client.clone(), namespace), (), ours(), |job: &mut Job| {
                job.metadata.managed_fields = None;
            }),
            pods: Watched::start(Api::namespaced(client.clone(), namespace), (), ours(), |pod: &mut Pod| {
                pod.metadata.managed_fields = None;
            }),
            fresh: Mutex::default(),
            client,
            settings,
            owner,
        }
    }

    fn api<K>(&self) -> Api<K>
    where
        K: Resource<Scope = k8s_openapi::NamespaceResourceScope, DynamicType = ()>,
    {
        Api::namespaced(self.client.clone(), &self.settings.namespace)
    }

    fn dynamic(&self, resource: &kube::core::ApiResource) -> Api<DynamicObject> {
        Api::namespaced_with(self.client.clone(), &self.settings.namespace, resource)
    }

    /// Makes an object, unless an earlier try did; a namesake of somebody else is an error.
    async fn make<K>(&self, api: &Api<K>, object: &K, mark: &Mark) -> Result<(), RuntimeError>
    where
        K: Resource + Clone + fmt::Debug + Serialize + DeserializeOwned,
    {
        match api.create(&PostParams::default(), object).await {
            Ok(_) => Ok(()),
            Err(error) if error::is_code(&error, 409) => {
                let name = name_of(mark.lead);
                let found = api.get(&name).await.map_err(|error| failed("look at a namesake", &error))?;
                let found = state::mark(found.meta(), &self.owner);
                if found.is_some_and(|found| object::is_same(&found, mark)) {
                    return Ok(());
                }
                Err(answered("make a job", format!("{name} is there and not this agent's")))
            }
            Err(error) => Err(failed("make a job", &error)),
        }
    }

    /// What the first node of a job calls the devices that one replica holds.
    async fn devices(&self, job: &Submission) -> Result<BTreeMap<String, u32>, RuntimeError> {
        let numbers: Vec<u32> = job.work.devices.iter().map(|number| Piece::of(*number).device()).collect();
        if numbers.is_empty() {
            return Ok(BTreeMap::new());
        }
        let nodes = self.nodes.all().await.map_err(|why| answered("ask for nodes", why))?;
        let name = job.work.node.as_str();
        let found = nodes.iter().find(|node| node.metadata.name.as_deref() == Some(name));
        let found = found.ok_or_else(|| answered("make a job", format!("there is no node {name}")))?;
        let kinds = node::kinds(found).unwrap_or_default();
        let none = || answered("make a job", format!("node {name} has no device with index {:?}", numbers.last()));
        node::resources(&kinds, numbers.iter().copied()).ok_or_else(none)
    }

    /// What was made and is seen by now is not fresh any more; neither is what is gone again.
    async fn settle(&self, seen: &[SiteJob]) -> Result<Vec<SiteJob>, RuntimeError> {
        let leads = seen.iter().filter_map(|job| job.mark.as_ref()).map(|mark| mark.lead);
        let mut old = Vec::new();
        {
            let mut fresh = self.fresh.lock().unwrap_or_else(PoisonError::into_inner);
            for lead in leads {
                fresh.remove(&lead);
            }
            old.extend(fresh.values().filter(|made| made.looked.elapsed() > LAG).map(|made| made.mark.lead));
        }
        for lead in old {
            let is_there = self.is_there(lead).await?;
            let mut fresh = self.fresh.lock().unwrap_or_else(PoisonError::into_inner);
            match fresh.get_mut(&lead).filter(|_| is_there) {
                Some(made) => made.looked = Instant::now(),
                None => drop(fresh.remove(&lead)),
            }
        }
        let fresh = self.fresh.lock().unwrap_or_else(PoisonError::into_inner);
        let waiting = |made: &Fresh| SiteJob {
            id: name_of(made.mark.lead),
            mark: Some(made.mark.clone()),
            state: JobState::Waiting { why: "it was just made".into() },
            nodes: Vec::new(),
        };
        Ok(fresh.values().map(waiting).collect())
    }

    async fn is_there(&self, lead: Uuid) -> Result<bool, RuntimeError> {
        let name = name_of(lead);
        let found = match self.settings.workload {
            KubernetesWorkload::Job => self.api::<Job>().get_opt(&name).await.map(|found| found.is_some()),
            KubernetesWorkload::JobSet => self.dynamic(&job_sets()).get_opt(&name).await.map(|found| found.is_some()),
        };
        found.map_err(|error| failed("ask for a job", &error))
    }

    /// Removes an object that is this agent's; one that is gone is well.
    async fn remove<K>(&self, api: &Api<K>, name: &str, how: PropagationPolicy) -> Result<(), RuntimeError>
    where
        K: Resource + Clone + fmt::Debug + DeserializeOwned,
    {
        for _ in 0..CONFLICTS {
            let found = api.get_opt(name).await.map_err(|error| failed("ask for what is to be removed", &error))?;
            let Some(found) = found.filter(|found| state::mark(found.meta(), &self.owner).is_some()) else {
                return Ok(());
            };
            // this very one, and no namesake that came meanwhile
            let uid = Preconditions { uid: found.meta().uid.clone(), resource_version: None };
            let how = DeleteParams {
                propagation_policy: Some(how.clone()),
                preconditions: Some(uid),
                ..DeleteParams::default()
            };
            match api.delete(name, &how).await {
                Ok(_) => return Ok(()),
                Err(error) if error::is_code(&error, 404) => return Ok(()),
                Err(error) if error::is_code(&error, 409) => {}
                Err(error) => return Err(failed("remove an object", &error)),
            }
        }
        Err(answered("remove an object", format!("{name} changes faster than it can be removed")))
    }

    async fn make_job(&self, job: &Submission) -> Result<String, RuntimeError> {
        let plan = Plan { submission: job, settings: &self.settings, devices: self.devices(job).await? };
        let mark = &job.mark;
        if let Some(KubernetesQueue::Volcano(queue)) = &self.settings.queue {
            self.make(&self.dynamic(&pod_groups()), &plan.pod_group(queue), mark).await?;
        }
        match self.settings.workload {
            KubernetesWorkload::Job => self.make(&self.api::<Job>(), &plan.job()?, mark).await?,
            KubernetesWorkload::JobSet => self.make(&self.dynamic(&job_sets()), &plan.job_set()?, mark).await?,
        }
        let made = Fresh { mark: mark.clone(), looked: Instant::now() };
        self.fresh.lock().unwrap_or_else(PoisonError::into_inner).insert(mark.lead, made);
        Ok(name_of(mark.lead))
    }

    /// The job and all that was made for it.
    async fn remove_job(&self, name: &str) -> Result<(), RuntimeError> {
        if self.settings.workload == KubernetesWorkload::JobSet {
            self.remove(&self.dynamic(&job_sets()), name, PropagationPolicy::Foreground).await?;
        }
        // also those that were made before the settings changed
        self.remove(&self.api::<Job>(), name, PropagationPolicy::Foreground).await?;
        if let Some(KubernetesQueue::Volcano(_)) = self.settings.queue {
            self.remove(&self.dynamic(&pod_groups()), name, PropagationPolicy::Background).await?;
        }
        // pods that somebody left behind when the job went
        let (job, pods) = self.of(name).await?;
        if job.is_none() {
            for pod in pods.iter().filter(|pod| pod.metadata.deletion_timestamp.is_none()) {
                let name = pod.metadata.name.clone().unwrap_or_default();
                self.remove(&self.api::<Pod>(), &name, PropagationPolicy::Background).await?;
            }
        }
        Ok(())
    }

    /// The job of that name and its pods, as they were last seen.
    async fn of(&self, name: &str) -> Result<(Option<Arc<Job>>, Vec<Arc<Pod>>), RuntimeError> {
        let silent = |why| answered("ask for pods", why);
        let (jobs, pods) = tokio::try_join!(self.jobs.all(), self.pods.all()).map_err(silent)?;
        let of_lead = |mark: Mark| name_of(mark.lead) == name;
        let job = jobs.into_iter().find(|job| state::job_mark(job, &self.owner).is_some_and(of_lead));
        let of_job = |pod: &Arc<Pod>| state::mark(&pod.metadata, &self.owner).is_some_and(of_lead);
        Ok((job, pods.into_iter().filter(of_job).collect()))
    }

    async fn remove_pod(&self, name: &str, place: usize) -> Result<(), RuntimeError> {
        let (job, pods) = self.of(name).await?;
        let (own, rest): (Vec<_>, Vec<_>) = pods.into_iter().partition(|pod| state::index(pod) == place);
        if own.is_empty() && rest.is_empty() {
            // a gang that has not begun is all or nothing
            return self.remove_job(name).await;
        }
        for pod in own {
            let name = pod.metadata.name.clone().unwrap_or_default();
            self.remove(&self.api::<Pod>(), &name, PropagationPolicy::Background).await?;
        }
        let is_over = job.is_some_and(|job| state::finished(&job).is_some());
        let is_last = rest.iter().all(|pod| pod.metadata.deletion_timestamp.is_some());
        if is_over && is_last { self.remove_job(name).await } else { Ok(()) }
    }
}

impl Controller for Cluster {
    fn name(&self) -> String {
        error::SITE.into()
    }

    fn has_gangs(&self) -> bool {
        true
    }

    fn keeps_ended(&self) -> bool {
        true
    }

    fn left_alone(&self) -> Duration {
        // its silence is known without asking
        AGAIN
    }

    fn admit(&self, work: &Work) -> Result<(), RuntimeError> {
        if object::image(&work.env, &self.settings).is_none() {
            let remedy = "name run.image in the order, or runtime.kubernetes.image at the site";
            return Err(RuntimeError::Admit { what: "work", value: "without an image".into(), remedy });
        }
        let slice = work.devices.iter().find(|number| matches!(Piece::of(**number), Piece::Slice { .. }));
        if let Some(slice) = slice {
            let remedy = "name the slice as a device model of its own, as the cluster offers it";
            return Err(RuntimeError::Admit { what: "the slice", value: slice.to_string(), remedy });
        }
        Ok(())
    }

    async fn snapshot(&self) -> Result<Snapshot, RuntimeError> {
        let silent = |why| answered("ask for jobs", why);
        // at once: each may have to wait for its first list
        let all = tokio::try_join!(self.nodes.all(), self.pods.all(), self.jobs.all(), self.placed.all());
        let (nodes, pods, jobs, placed) = all.map_err(silent)?;
        let mut runs = state::runs(&jobs, &pods, &self.owner);
        runs.extend(error::in_time("ask for a job", self.settle(&runs)).await?);
        let is_ours = |pod: &Pod| {
            pod.metadata.namespace.as_deref() == Some(self.settings.namespace.as_str())
                && state::mark(&pod.metadata, &self.owner).is_some()
        };
        Ok(Snapshot {
            jobs: runs,
            unmanaged: state::foreign(&placed, &nodes, is_ours),
            nodes: nodes.iter().filter_map(|node| node::stock(node, &self.settings)).collect(),
            used: Vec::new(),
        })
    }

    async fn submit(&self, job: &Submission) -> Result<String, RuntimeError> {
        Box::pin(error::in_time("make a job", self.make_job(job))).await
    }

    async fn cancel(&self, id: &str) -> Result<(), RuntimeError> {
        let removed = async {
            match id.split_once('/') {
                Some((name, place)) => self.remove_pod(name, place.parse().unwrap_or(0)).await,
                None => self.remove_job(id).await,
            }
        };
        error::in_time("remove a job", removed).await
    }
}
