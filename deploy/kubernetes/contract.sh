#!/usr/bin/env bash
# The contract of runtimes against a real cluster: deploy/kubernetes/contract.sh [CASE]
#
# Needs kubectl and a KUBECONFIG whose user may make namespaces and cluster roles and patch the status of one node; cargo; and in
# the cluster a storage class by default. Everything is made in a namespace of its own and removed afterwards, also when a case
# fails. One node is used; it gets 16 devices that are only numbers for as long as this runs.
#
#   NODE     the node; default: the first that is ready and open
#   IMAGE    of the runs and of the program itself; needs glibc as new as that of the building machine, sh and coreutils;
#            default: debian:13-slim
#   STORAGE_CLASS, ACCESS    of the volume; default: the cluster's, ReadWriteOnce
#   QUEUE    a ClusterQueue of Kueue: jobs then begin by its word
#   KEEP     leave the namespace as it is
set -euo pipefail
cd "$(dirname "$0")/../.."
image="${IMAGE:-debian:13-slim}"
access="${ACCESS:-ReadWriteOnce}"
device=iluvatar.com/gpu
name="rhumb-contract-$(date +%s)-$$"

say() { echo "contract: $*" >&2; }
need() { command -v "$1" >/dev/null || { say "$1 is missing"; exit 2; }; }
need kubectl
need cargo
kubectl version --request-timeout=15s >/dev/null || { say "the cluster of KUBECONFIG does not answer"; exit 2; }

if [ -z "${NODE:-}" ]; then
  ready='{range .items[*]}{.metadata.name}{" "}{.spec.unschedulable}{" "}{.spec.taints[*].effect}{" "}{range .status.conditions[?(@.type=="Ready")]}{.status}{end}{"\n"}{end}'
  NODE=$(kubectl get nodes -o jsonpath="$ready" | awk 'NF == 2 && $2 == "True" { print $1; exit }')
  [ -n "$NODE" ] || { say "no node is ready and open: name one by NODE"; exit 2; }
fi
say "namespace $name, node $NODE, image $image"

cargo build --locked -p rhumb-kubernetes --bin rhumb-pod-supervisor
program=$(cargo test --locked -p rhumb-kubernetes --test cluster --no-run --message-format=json |
  sed -n 's/.*"executable":"\([^"]*\/deps\/cluster-[^"]*\)".*/\1/p' | tail -1)
supervisor="${CARGO_TARGET_DIR:-target}/debug/rhumb-pod-supervisor"
[ -x "$program" ] && [ -x "$supervisor" ] || { say "the programs were not built"; exit 2; }

# a resource's name in a JSON pointer
resource="${device//\//~1}"
patch_node() {
  kubectl patch node "$NODE" --subresource=status --type=json -p "[{\"op\":\"$1\",\"path\":\"/status/$2/$resource\"${3:-}}]" >/dev/null
}
cleanup() {
  local code=$?
  trap - EXIT INT TERM
  patch_node remove capacity || say "the devices could not be taken from node $NODE: remove $device from its status"
  # its kubelet may have done so already
  patch_node remove allocatable 2>/dev/null || true
  if [ -n "${KEEP:-}" ]; then
    say "left: namespace $name, clusterrole and clusterrolebinding $name"
  else
    kubectl delete clusterrolebinding,clusterrole "$name" --ignore-not-found >/dev/null || true
    kubectl delete namespace "$name" --ignore-not-found --timeout=180s >/dev/null || say "namespace $name is still being removed"
  fi
  exit "$code"
}
trap cleanup EXIT INT TERM

patch_node add capacity ',"value":"16"'
# its kubelet says so after a while, or at once by ours
patch_node add allocatable ',"value":"16"'
class=""
[ -z "${STORAGE_CLASS:-}" ] || class="storageClassName: $STORAGE_CLASS"
kubectl apply -f - >/dev/null <<EOF
apiVersion: v1
kind: Namespace
metadata: {name: $name}
---
apiVersion: v1
kind: ServiceAccount
metadata: {name: contract, namespace: $name}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: $name}
rules:
  - {apiGroups: [""], resources: [nodes, pods], verbs: [get, list, watch]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: $name}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: $name}
subjects: [{kind: ServiceAccount, name: contract, namespace: $name}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: contract, namespace: $name}
rules:
  - {apiGroups: [""], resources: [pods], verbs: [get, list, watch, delete]}
  - {apiGroups: [""], resources: [pods/exec], verbs: [get, create]}
  - {apiGroups: [batch], resources: [jobs], verbs: [get, list, watch, create, delete]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: contract, namespace: $name}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: contract}
subjects: [{kind: ServiceAccount, name: contract, namespace: $name}]
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: runs, namespace: $name}
spec:
  accessModes: [$access]
  resources: {requests: {storage: 2Gi}}
  $class
---
apiVersion: v1
kind: Pod
metadata: {name: contract, namespace: $name}
spec:
  serviceAccountName: contract
  restartPolicy: Never
  terminationGracePeriodSeconds: 1
  nodeSelector: {kubernetes.io/hostname: "$(kubectl get node "$NODE" -o jsonpath='{.metadata.labels.kubernetes\.io/hostname}')"}
  tolerations: [{operator: Exists}]
  containers:
    - name: contract
      image: $image
      command: [sleep, infinity]
      volumeMounts: [{name: runs, mountPath: /shared}]
  volumes:
    - name: runs
      persistentVolumeClaim: {claimName: runs}
EOF
if [ -n "${QUEUE:-}" ]; then
  version=$(kubectl api-versions | grep '^kueue.x-k8s.io/' | sort | tail -1)
  [ -n "$version" ] || { say "the cluster has no Kueue"; exit 2; }
  kubectl apply -f - >/dev/null <<EOF
apiVersion: $version
kind: LocalQueue
metadata: {name: contract, namespace: $name}
spec: {clusterQueue: $QUEUE}
EOF
fi
kubectl wait -n "$name" --for=condition=Ready pod/contract --timeout=300s >/dev/null

inside() { kubectl exec -i -n "$name" contract -- "$@"; }
for file in "$program:contract" "$supervisor:supervisor"; do
  inside sh -c "cat > /shared/${file##*:} && chmod 755 /shared/${file##*:}" < "${file%:*}"
done
inside mkdir -p /shared/tmp
say "the cases run"
inside env TMPDIR=/shared/tmp RHUMB_CASE="${1:-}" RHUMB_CONTRACT_NAMESPACE="$name" RHUMB_CONTRACT_NODE="$NODE" \
  RHUMB_CONTRACT_CLAIM=runs RHUMB_CONTRACT_SHARED=/shared RHUMB_CONTRACT_SUPERVISOR=/shared/supervisor \
  RHUMB_CONTRACT_IMAGE="$image" RHUMB_CONTRACT_DEVICE="$device" RHUMB_CONTRACT_QUEUE="${QUEUE:+contract}" \
  /shared/contract --nocapture
say "all of it is well"
