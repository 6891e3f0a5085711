import { HOLDER, SERVICE } from "./network";

const START = Date.now() - 96_000;
const at = (seconds: number): string => new Date(START + seconds * 1000).toISOString();

export interface MockOrder {
  id: string;
  name: string;
  state: string;
  phase: string | null;
  [key: string]: unknown;
}

const cost = (compute: number, path: number, transfer: number, time: number) => ({
  total_micros: compute + path + transfer + time,
  compute_micros: compute,
  path_micros: path,
  transfer_micros: transfer,
  time_micros: time,
  lateness_micros: 0,
  fragmentation_micros: 0,
  currency: "CNY",
});

const TRAINING_PLAN = {
  components: [
    {
      name: "trainer",
      assignments: [
        { site: "shanghai-1", replicas: 2, model: "H100", devices_per_replica: 8 },
        { site: "beijing-1", replicas: 1, model: "A100", devices_per_replica: 8 },
      ],
    },
    { name: "feeder", assignments: [{ site: "shanghai-1", replicas: 1, model: null, devices_per_replica: 0 }] },
  ],
  flows: [
    { flow: 0, from: "dataset/corpus", to: "trainer", from_site: "shanghai-1", to_site: "shanghai-1", path: [], rate_kbps: 0, volume_bytes: 32_000_000, demand_mrps: 0, latency_us: 0 },
    { flow: 0, from: "dataset/corpus", to: "trainer", from_site: "guiyang-1", to_site: "beijing-1", path: ["xa-gy~", "xa-bj"], rate_kbps: 20_000, volume_bytes: 16_000_000, demand_mrps: 0, latency_us: 20_300 },
    { flow: 1, from: "trainer", to: "trainer", from_site: "shanghai-1", to_site: "beijing-1", path: ["sh-bj"], rate_kbps: 50_000, volume_bytes: 0, demand_mrps: 0, latency_us: 12_400 },
    { flow: 1, from: "trainer", to: "trainer", from_site: "beijing-1", to_site: "shanghai-1", path: ["sh-bj~"], rate_kbps: 50_000, volume_bytes: 0, demand_mrps: 0, latency_us: 12_400 },
  ],
  start: at(12),
  finish: at(132),
  cost: cost(15_466_667, 33_600, 320, 1_100_000),
  lower_bound_micros: 16_600_587,
  gap_ppm: 0,
  proven_optimal: true,
};

const SERVICE_PLAN = {
  components: [{ name: "web", assignments: [{ site: "wuhan-edge", replicas: 1, model: "L40S", devices_per_replica: 1 }] }],
  flows: [{ flow: 0, from: "region/wuhan-users", to: "web", from_site: "wuhan-edge", to_site: "wuhan-edge", path: [], rate_kbps: 0, volume_bytes: 0, demand_mrps: 40_000, latency_us: 0 }],
  start: at(40),
  finish: at(86_440),
  cost: cost(168_000_000, 0, 0, 0),
  lower_bound_micros: 165_400_000,
  gap_ppm: 15_477,
  proven_optimal: false,
};

export const PENDING_ID = "0197a2c4-7a44-7d19-b3f0-2c8e5b6d4c03";

const base = (id: string, name: string, state: string, phase: string | null, seconds: number) => ({
  id,
  name,
  tenant: "demo",
  state,
  phase,
  attention: null as string | null,
  reasons: [] as object[],
  plan: null as object | null,
  quote_id: null as string | null,
  created: at(seconds),
  updated: at(seconds + 12),
  observed_age_ms: 800 as number | null,
  stale: false,
  generation: 1,
  cost: null as object | null,
  usage: null,
});

export function makeOrders(): MockOrder[] {
  return [
    { ...base(PENDING_ID, "wide-pretrain", "pending", null, 80), reasons: [{ reason: "shape", component: "trainer", needed: "8 × H100 on one node", free: "6 × H100 on one node at most" }], observed_age_ms: null },
    { ...base(SERVICE, "answers-wuhan", "inProgress", "running", 34), plan: SERVICE_PLAN, cost: SERVICE_PLAN.cost, generation: 2, attention: "moved once: shenzhen-edge was lost for 70 s" },
    { ...base(HOLDER, "corpus-pretrain", "inProgress", "running", 4), plan: TRAINING_PLAN, cost: TRAINING_PLAN.cost },
    ...["tune-nightly", "census-clean", "ocr-archive"].map((name, index) => ({
      ...base(`0197a2c3-0000-7000-8000-00000000000${index}`, name, ["completed", "failed", "cancelled"][index] ?? "completed", null, -4000 + index * 600),
      plan: SERVICE_PLAN,
      cost: cost(1_840_000 + index * 500_000, 2_100, 0, 0),
    })),
  ];
}

const SITES = ["shanghai-1", "beijing-1", "guiyang-1", "wuhan-edge", "shenzhen-edge", "singapore-1", "tokyo-1", "frankfurt-1", "london-edge", "oregon-1"];

export function explain(order: MockOrder) {
  if (order.id === PENDING_ID) {
    return {
      ...order,
      sites: [
        { site: "shanghai-1", verdict: "refused", reason: { reason: "shape", component: "trainer", needed: "8 × H100", free: "6 × H100" } },
        { site: "beijing-1", verdict: "refused", reason: { reason: "model", component: "trainer", needed: "H100", free: "A100" } },
        { site: "singapore-1", verdict: "refused", reason: { reason: "jurisdiction", needed: "CN", free: "SG" } },
        { site: "oregon-1", verdict: "refused", reason: { reason: "jurisdiction", needed: "CN", free: "US" } },
      ],
      would_fit_if: [
        { pointer: "/components/0/need/accelerators/count", from: 8, to: 6, cost_micros: 42_000_000 },
        { pointer: "/constraints/jurisdictions", from: ["CN"], to: ["CN", "SG"], cost_micros: 49_300_000 },
      ],
    };
  }
  const sites = SITES.map((site) => {
    if (site === "shanghai-1" || site === "beijing-1") return { site, verdict: "chosen", delta_micros: 0, reason: null };
    if (site === "guiyang-1") return { site, verdict: "dearer", delta_micros: 2_410_000, delta: cost(2_700_000, 10_000, 0, -300_000) };
    if (site === "singapore-1") return { site, verdict: "dearer", delta_micros: 8_925_000, delta: cost(6_400_000, 2_500_000, 25_000, 0) };
    if (site === "frankfurt-1") return { site, verdict: "refused", delta_micros: null, reason: { reason: "latency", flow: 1, needed: "5 ms", free: "71.8 ms" } };
    if (site === "tokyo-1") return { site, verdict: "refused", delta_micros: null, reason: { reason: "draining", component: null, needed: null, free: null } };
    if (site === "oregon-1") return { site, verdict: "refused", delta_micros: null, reason: { reason: "stale", needed: "60s", free: "418s" } };
    return { site, verdict: "refused", delta_micros: null, reason: { reason: "model", component: "trainer", needed: "H100 or A100", free: "L40S" } };
  });
  return { ...order, sites, would_fit_if: [] };
}

export function eventsOf(order: MockOrder) {
  const told: [number, string | null, string, string, object][] = [
    [4, null, "acknowledged", "order is durable", {}],
    [4.1, "reserving", "decided", "placed on shanghai-1 and beijing-1 on view 412", { view_generation: 412, decision_us: 3_420, total_micros: 16_600_587 }],
    [4.3, "holding", "lease", "lease granted by shanghai-1 and beijing-1", { epoch: 3, devices: 24 }],
    [4.9, "routing", "route", "3 routes are up", { path: "xa-gy~, xa-bj", rate_kbps: 20_000 }],
    [5.4, "staging", "staging", "corpus moves to beijing-1", { volume_bytes: 16_000_000 }],
    [11.9, "starting", "start", "starting 4 replicas", {}],
    [12.6, "running", "running", "all replicas run", {}],
  ];
  const known = order.plan ? told : told.slice(0, 1);
  return known.map(([seconds, phase, kind, message, detail], seq) => ({ seq: seq + 1, at: at(seconds), kind, phase, detail, message }));
}

export const USAGE = {
  items: [
    { kind: "accelerator_seconds", site: "shanghai-1", link: null, quantity: 1331.2, cost_micros: 10_353_778 },
    { kind: "accelerator_seconds", site: "beijing-1", link: null, quantity: 665.6, cost_micros: 2_218_667 },
    { kind: "gb_moved", site: null, link: "xa-gy~", quantity: 0.016, cost_micros: 160 },
    { kind: "gb_moved", site: null, link: "xa-bj", quantity: 0.016, cost_micros: 160 },
    { kind: "mbps_hours", site: null, link: "sh-bj", quantity: 1.1528, cost_micros: 11_528 },
  ],
  total_micros: 12_584_293,
  currency: "CNY",
};

/** Chunks end where they were cut, not where lines do. */
export const LOGS = ["step 0 loss 4.200\nstep 20 lo", "ss 3.231\nstep 40 loss 2.625\n", "warning: gradient norm 41.2 clipped to 1.0\n"].map((text, index) => ({
  generation: 1,
  component: index === 2 ? "feeder" : "trainer",
  replica: 0,
  offset: index * 30,
  text,
}));

export { SERVICE_PLAN, TRAINING_PLAN };
