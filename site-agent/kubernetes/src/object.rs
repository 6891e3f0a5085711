//! From a submission to the objects that run it. Names are typed fields; no word of an order is in any command.

use crate::{error, node};
use k8s_openapi::{
    api::{
        batch::v1::{Job, JobSpec},
        core::v1::{
            Affinity, Capabilities, Container, EnvVar, HostPathVolumeSource, LocalObjectReference, NodeAffinity,
            NodeSelector, NodeSelectorRequirement, NodeSelectorTerm, PersistentVolumeClaimVolumeSource,
            PodSecurityContext, PodSpec, PodTemplateSpec, ResourceRequirements, SeccompProfile, SecurityContext,
            Toleration, TopologySpreadConstraint, Volume, VolumeMount,
        },
    },
    apimachinery::pkg::{
        api::resource::Quantity,
        apis::meta::v1::{LabelSelector, ObjectMeta},
    },
};
use kube::core::{ApiResource, DynamicObject, GroupVersionKind};
use rhumb_runtimes::{
    KubernetesQueue, KubernetesSettings, KubernetesVolume, RuntimeError, SUPERVISE, Visible,
    batch::{Mark, Submission},
    folder::Folder,
};
use serde_json::json;
use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};
use uuid::Uuid;

/// The annotation that says whose an object is and what it runs; labels say the same for people.
pub(crate) const MARK: &str = "rhumb/mark";
/// The label by which this agent's objects are watched: the run's number.
pub(crate) const RUN: &str = "rhumb/run";
const VOLUME: &str = "runs";
/// The variable of an order's environment that names its image.
const IMAGE: &str = "RHUMB_IMAGE";
/// Those that name where its data is.
const OUTPUTS: &str = "RHUMB_OUTPUT_DIR";
const DATASET: &str = "RHUMB_DATASET_";

/// What a job is called: new for every run, so that no name makes a job ours.
pub(crate) fn name_of(lead: Uuid) -> String {
    format!("rhumb-{lead}")
}

/// What JobSet calls the one job of a set of that name.
pub(crate) fn job_name(lead: Uuid) -> String {
    format!("{}-{PART}-0", name_of(lead))
}

const PART: &str = "r";

pub(crate) fn job_sets() -> ApiResource {
    ApiResource::from_gvk(&GroupVersionKind::gvk("jobset.x-k8s.io", "v1alpha2", "JobSet"))
}

pub(crate) fn pod_groups() -> ApiResource {
    ApiResource::from_gvk(&GroupVersionKind::gvk("scheduling.volcano.sh", "v1beta1", "PodGroup"))
}

/// The image that an order names, or the site's.
pub(crate) fn image<'a>(env: &'a BTreeMap<String, String>, settings: &'a KubernetesSettings) -> Option<&'a str> {
    env.get(IMAGE).or(settings.image.as_ref()).map(String::as_str)
}

/// Everything of one run or gang. `resources`: the devices of one replica.
#[derive(Debug)]
pub(crate) struct Plan<'a> {
    pub(crate) submission: &'a Submission,
    pub(crate) settings: &'a KubernetesSettings,
    pub(crate) devices: BTreeMap<String, u32>,
}

impl Plan<'_> {
    pub(crate) fn job(&self) -> Result<Job, RuntimeError> {
        let replicas = self.submission.replicas() as i32;
        let is_gang = replicas > 1;
        let is_queued = matches!(self.settings.queue, Some(KubernetesQueue::Kueue(_)));
        let spec = JobSpec {
            completions: Some(replicas),
            parallelism: Some(replicas),
            completion_mode: is_gang.then(|| "Indexed".into()),
            // a run is never tried again; one replica that fails leaves the others alone
            backoff_limit: (!is_gang).then_some(0),
            backoff_limit_per_index: is_gang.then_some(0),
            pod_replacement_policy: Some("Failed".into()),
            suspend: is_queued.then_some(true),
            template: self.pod()?,
            ..JobSpec::default()
        };
        Ok(Job { metadata: self.metadata(true), spec: Some(spec), status: None })
    }

    pub(crate) fn job_set(&self) -> Result<DynamicObject, RuntimeError> {
        let job = self.job()?;
        let mut part = job.spec.unwrap_or_default();
        let is_queued = part.suspend.take();
        let template = json!({"metadata": self.metadata(false), "spec": part});
        let mut set = DynamicObject::new(&name_of(self.submission.mark.lead), &job_sets());
        set.metadata = self.metadata(true);
        set.data = json!({"spec": {
            "replicatedJobs": [{"name": PART, "replicas": 1, "template": template}],
            "failurePolicy": {"maxRestarts": 0},
        }});
        if let Some(suspended) = is_queued {
            set.data["spec"]["suspend"] = json!(suspended);
        }
        Ok(set)
    }

    /// Volcano's word for pods that start together.
    pub(crate) fn pod_group(&self, queue: &str) -> DynamicObject {
        let mut group = DynamicObject::new(&name_of(self.submission.mark.lead), &pod_groups());
        group.metadata = self.metadata(true);
        group.data = json!({"spec": {"minMember": self.submission.replicas(), "queue": queue}});
        group
    }

    fn metadata(&self, is_named: bool) -> ObjectMeta {
        let mark = &self.submission.mark;
        let mut labels = BTreeMap::from([
            (RUN.to_owned(), mark.lead.to_string()),
            ("rhumb/order".to_owned(), mark.order.to_string()),
            ("rhumb/generation".to_owned(), mark.generation.to_string()),
        ]);
        // a label's value ends in a letter or digit; names may not
        let words = [("rhumb/agent", mark.owner.as_str()), ("rhumb/component", mark.component.as_str())];
        let is_label = |word: &str| word.ends_with(|c: char| c.is_ascii_alphanumeric());
        labels.extend(words.into_iter().filter(|(_, word)| is_label(word)).map(|(k, v)| (k.to_owned(), v.to_owned())));
        if let (Some(KubernetesQueue::Kueue(queue)), true) = (&self.settings.queue, is_named) {
            labels.insert("kueue.x-k8s.io/queue-name".into(), queue.clone());
        }
        let mut annotations = BTreeMap::from([(MARK.to_owned(), mark.to_string())]);
        if let (Some(KubernetesQueue::Volcano(_)), false) = (&self.settings.queue, is_named) {
            annotations.insert("scheduling.k8s.io/group-name".into(), name_of(mark.lead));
        }
        ObjectMeta {
            name: is_named.then(|| name_of(mark.lead)),
            labels: Some(labels),
            annotations: Some(annotations),
            ..ObjectMeta::default()
        }
    }

    fn pod(&self) -> Result<PodTemplateSpec, RuntimeError> {
        let settings = self.settings;
        let kill_wait = settings.kill_wait.micros().div_ceil(1_000_000);
        let user = |own: u32, named: Option<u32>| Some(i64::from(named.unwrap_or(own)));
        let group = user(rustix::process::getgid().as_raw(), settings.group);
        let spec = PodSpec {
            affinity: Some(self.affinity()),
            automount_service_account_token: Some(false),
            containers: vec![self.container()?],
            enable_service_links: Some(false),
            image_pull_secrets: settings.pull_secret.clone().map(|name| vec![LocalObjectReference { name }]),
            priority_class_name: settings.priority_class.clone(),
            restart_policy: Some("Never".into()),
            runtime_class_name: settings.runtime_class.clone(),
            scheduler_name: matches!(settings.queue, Some(KubernetesQueue::Volcano(_))).then(|| "volcano".into()),
            security_context: Some(PodSecurityContext {
                run_as_user: user(rustix::process::getuid().as_raw(), settings.user),
                run_as_group: group,
                fs_group: group,
                // a large volume is not gone through for every pod
                fs_group_change_policy: Some("OnRootMismatch".into()),
                seccomp_profile: Some(SeccompProfile { type_: "RuntimeDefault".into(), ..SeccompProfile::default() }),
                ..PodSecurityContext::default()
            }),
            service_account_name: settings.service_account.clone(),
            termination_grace_period_seconds: Some(kill_wait as i64),
            tolerations: Some(self.tolerations()),
            topology_spread_constraints: self.spread(),
            volumes: Some(vec![self.volume()]),
            ..PodSpec::default()
        };
        Ok(PodTemplateSpec { metadata: Some(self.metadata(false)), spec: Some(spec) })
    }

    fn container(&self) -> Result<Container, RuntimeError> {
        let work = &self.submission.work;
        let image = image(&work.env, self.settings);
        let image =
            image.ok_or_else(|| error::answered("make a pod", "the order names no image, and the site has none"))?;
        let mut asked: BTreeMap<String, Quantity> = BTreeMap::new();
        if work.cpu.milli() > 0 {
            asked.insert("cpu".into(), Quantity(format!("{}m", work.cpu.milli())));
        }
        if work.memory.bytes() > 0 {
            asked.insert("memory".into(), Quantity(work.memory.bytes().to_string()));
        }
        asked.extend(self.devices.iter().map(|(resource, count)| (resource.clone(), Quantity(count.to_string()))));
        // in a container devices are numbered from 0, whatever they are on their node
        let seen: Vec<String> = (0..work.devices.len()).map(|index| index.to_string()).collect();
        let shown = work.family.filter(|_| !seen.is_empty()).map(|family| EnvVar {
            name: family.variable().into(),
            value: Some(seen.join(",")),
            value_from: None,
        });
        let command = [text(&self.submission.supervisor), SUPERVISE.into(), text(&self.submission.folder)];
        Ok(Container {
            name: "run".into(),
            image: Some(image.to_owned()),
            command: Some(command.into_iter().map(|word| literal(&word)).collect()),
            env: shown.map(|shown| vec![shown]),
            resources: Some(ResourceRequirements {
                requests: Some(asked.clone()),
                limits: Some(asked),
                ..ResourceRequirements::default()
            }),
            security_context: Some(SecurityContext {
                allow_privilege_escalation: Some(false),
                capabilities: Some(Capabilities { drop: Some(vec!["ALL".into()]), add: None }),
                ..SecurityContext::default()
            }),
            volume_mounts: Some(self.mounts()?),
            ..Container::default()
        })
    }

    fn mounts(&self) -> Result<Vec<VolumeMount>, RuntimeError> {
        let root = self.settings.mount();
        let mount = |path: &Path, is_read_only: bool| {
            let inside = path.strip_prefix(root).ok().map(text).filter(|inside| !inside.is_empty());
            VolumeMount {
                name: VOLUME.into(),
                mount_path: text(path),
                sub_path: inside,
                read_only: Some(is_read_only),
                ..VolumeMount::default()
            }
        };
        if self.settings.visible == Visible::All {
            return Ok(vec![mount(root, false)]);
        }
        let (supervisor, folder) = (&self.submission.supervisor, &self.submission.folder);
        let runs = folder.parent().ok_or_else(|| error::answered("make a pod", "its folder is the root"))?;
        let folders: Vec<PathBuf> =
            self.submission.mark.keys().map(|key| Folder::of(runs, &key).path().to_owned()).collect();
        let mut mounts: Vec<VolumeMount> = folders.iter().map(|folder| mount(folder, false)).collect();
        if supervisor.starts_with(root) {
            mounts.push(mount(supervisor, true));
        }
        // inputs to read, and where outputs go
        for (path, is_read_only) in self.data(root)? {
            if !mounts.iter().any(|mount| path.starts_with(&mount.mount_path)) {
                mounts.push(mount(&path, is_read_only));
            }
        }
        Ok(mounts)
    }

    /// The files of its datasets and the folder of its outputs, that first; whether it only reads them.
    fn data(&self, root: &Path) -> Result<Vec<(PathBuf, bool)>, RuntimeError> {
        let env = &self.submission.work.env;
        let outputs = env.get(OUTPUTS).map(PathBuf::from);
        let is_output = |path: &Path| outputs.as_ref().is_some_and(|outputs| path.starts_with(outputs));
        let inputs: Vec<PathBuf> = env
            .iter()
            .filter(|(name, _)| name.starts_with(DATASET))
            .map(|(_, path)| PathBuf::from(path))
            .filter(|path| !is_output(path))
            .collect();
        if let Some(input) = inputs.iter().find(|input| !input.starts_with(root)) {
            let shown = input.display();
            let why = format!("pods do not see {shown}: put the agent's data_dir below {}", root.display());
            return Err(error::answered("make a pod", why));
        }
        let outputs =
            outputs.iter().filter(|outputs| outputs.starts_with(root)).map(|outputs| (outputs.clone(), false));
        Ok(outputs.chain(inputs.iter().map(|input| (input.clone(), true))).collect())
    }

    fn volume(&self) -> Volume {
        let mut volume = Volume { name: VOLUME.into(), ..Volume::default() };
        match &self.settings.volume {
            KubernetesVolume::Claim(name) => {
                let claim = PersistentVolumeClaimVolumeSource { claim_name: name.clone(), read_only: None };
                volume.persistent_volume_claim = Some(claim);
            }
            KubernetesVolume::HostPath(path) => {
                let source = HostPathVolumeSource { path: text(path), type_: Some("Directory".into()) };
                volume.host_path = Some(source);
            }
        }
        volume
    }

    /// The nodes of the plan, by their names as objects: labels can be anything.
    fn affinity(&self) -> Affinity {
        let term = |node: &String| NodeSelectorTerm {
            match_fields: Some(vec![NodeSelectorRequirement {
                key: "metadata.name".into(),
                operator: "In".into(),
                values: Some(vec![node.clone()]),
            }]),
            match_expressions: None,
        };
        let terms = self.submission.nodes.keys().map(term).collect();
        let selector = NodeSelector { node_selector_terms: terms };
        Affinity {
            node_affinity: Some(NodeAffinity {
                required_during_scheduling_ignored_during_execution: Some(selector),
                preferred_during_scheduling_ignored_during_execution: None,
            }),
            ..Affinity::default()
        }
    }

    /// As many on each node as on the others, where the plan says so.
    fn spread(&self) -> Option<Vec<TopologySpreadConstraint>> {
        let nodes = &self.submission.nodes;
        let first = nodes.values().next()?;
        if nodes.len() < 2 || nodes.values().any(|count| count != first) {
            return None;
        }
        let run = BTreeMap::from([(RUN.to_owned(), self.submission.mark.lead.to_string())]);
        Some(vec![TopologySpreadConstraint {
            max_skew: 1,
            topology_key: "kubernetes.io/hostname".into(),
            when_unsatisfiable: "DoNotSchedule".into(),
            label_selector: Some(LabelSelector { match_labels: Some(run), match_expressions: None }),
            ..TopologySpreadConstraint::default()
        }])
    }

    fn tolerations(&self) -> Vec<Toleration> {
        let asked = self.devices.keys().filter(|resource| node::is_device(resource));
        let bear = |key: &String| Toleration {
            key: Some(key.clone()),
            operator: Some("Exists".into()),
            ..Toleration::default()
        };
        asked.chain(&self.settings.tolerations).map(bear).collect()
    }
}

/// The keys of one mark's owner, whatever else.
pub(crate) fn is_same(one: &Mark, other: &Mark) -> bool {
    (&one.owner, one.lead, one.order, one.generation) == (&other.owner, other.lead, other.order, other.generation)
}

/// `$(NAME)` in a command would be replaced by the API's own rules.
fn literal(word: &str) -> String {
    word.replace("$(", "$$(")
}

fn text(path: impl AsRef<Path>) -> String {
    path.as_ref().to_string_lossy().into_owned()
}
