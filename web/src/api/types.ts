// The shapes the console uses. They are thinner and more forgiving than the schema: what a server may leave
// out is optional here, and a word not known to this console stays text. Units end the names.

export interface Place {
  lat: number;
  lon: number;
}

export interface AcceleratorCount {
  model: string;
  total: number;
  free: number;
}

export interface Device {
  index: number;
  model: string;
  memory_bytes: number;
  /** NVLink island within the node; absent where the device has no NVLink. */
  island?: number | null;
  numa?: number | null;
  /** PCIe switch within the node. */
  pcie?: number | null;
  health?: string | null;
  /** The order that holds the device; `held` where it is another tenant's, `quote ID` where a quote holds it. */
  order?: string | null;
  /** Thousandths held; 1000 or absent with an order means the whole device. */
  share?: number;
  /** `on`: given away in slices; `off`: could be cut. */
  mig?: string | null;
  slices?: Slice[];
  /** What can still be cut, by profile. */
  can_be_cut?: Record<string, number>;
  utilisation_pct?: number | null;
  temperature_mc?: number | null;
  power_mw?: number | null;
  /** What is not known of it, or not well, and why. */
  notes?: string[];
}

export interface Slice {
  number: number;
  profile: string;
  memory_bytes: number;
  order?: string | null;
}

export interface Port {
  name: string;
  rate_kbps?: number | null;
}

export interface SiteNode {
  name: string;
  rack?: string | null;
  nvl_domain?: string | null;
  ports?: Port[];
  cpu_milli_total: number;
  cpu_milli_free: number;
  memory_bytes_total: number;
  memory_bytes_free: number;
  devices?: Device[];
}

export interface Site {
  name: string;
  tier: string;
  place?: Place | null;
  jurisdiction?: string | null;
  labels?: string[];
  state: string;
  observed_age_ms?: number | null;
  stale?: boolean;
  accelerators?: AcceleratorCount[];
  nodes?: SiteNode[];
  prices?: { currency: string; devices?: Record<string, number> } | null;
}

export interface Transit {
  name: string;
  place?: Place | null;
  relay?: boolean;
  jurisdiction?: string | null;
  state?: string;
  observed_age_ms?: number | null;
  stale?: boolean;
}

export interface Link {
  id: string;
  from: string;
  to: string;
  configured_latency_us: number;
  /** Measured one-way delay: half the RTT p50. */
  latency_us?: number | null;
  rtt_us?: { min: number; p50: number; p95: number } | null;
  loss_ppm?: number | null;
  jitter_us?: number | null;
  capacity_kbps: number;
  available_kbps?: number | null;
  reserved_kbps?: number;
  age_ms?: number | null;
  stale?: boolean;
  estimated?: boolean;
  /** Nobody probes it: the one-way delay believed of it. */
  estimate_us?: number | null;
  /** Why the figure is not believed as it is: `faster_than_light` or `ends_disagree`. */
  disputed?: string | null;
  /** The figures that decisions rest on. */
  held_rtt_us?: { min: number; p95: number } | null;
  /** The last time that the path was another. */
  path_changed?: { at: string; min_from_us?: number | null; min_to_us?: number | null } | null;
  /** What is known of its rate, the most trusted first. */
  bandwidths?: LinkBandwidth[];
  provider?: string | null;
  per_gb_micros?: number;
  per_mbps_hour_micros?: number;
  currency?: string;
  jurisdictions?: string[];
  encrypted?: boolean;
}

export interface LinkBandwidth {
  /** What the link carries; by counters, what it has left. */
  rate_kbps: number;
  available_kbps?: number | null;
  method: string;
  confidence: string;
  age_ms: number;
  limited_by?: string | null;
}

/** What probes said of a link over one window. */
export interface LinkWindow {
  /** End of the window. */
  at: string;
  window_us: number;
  sent: number;
  received: number;
  rtt_us?: { min: number; p50: number; p95: number; p99: number } | null;
  loss_ppm?: number | null;
  loss_back_ppm?: number | null;
}

export interface Reason {
  reason: string;
  component?: string | null;
  flow?: number | string | null;
  site?: string | null;
  needed?: unknown;
  free?: unknown;
}

export interface Cost {
  total_micros: number;
  compute_micros?: number;
  path_micros?: number;
  transfer_micros?: number;
  time_micros?: number;
  lateness_micros?: number;
  fragmentation_micros?: number;
  currency: string;
}

export interface Assignment {
  site: string;
  replicas: number;
  model?: string | null;
  devices_per_replica?: number;
}

export interface Leg {
  flow: number;
  from: string;
  to: string;
  from_site: string;
  to_site: string;
  path: string[];
  rate_kbps?: number;
  volume_bytes?: number;
  demand_mrps?: number;
  latency_us?: number;
}

export interface Plan {
  components: { name: string; assignments: Assignment[] }[];
  flows?: Leg[];
  start?: string | null;
  finish?: string | null;
  cost?: Cost | null;
  lower_bound_micros?: number;
  gap_ppm?: number;
  proven_optimal?: boolean;
}

export interface Verdict {
  site: string;
  verdict: string;
  delta_micros?: number | null;
  reason?: Reason | null;
  /** The difference by term, where the site is dearer. */
  delta?: Cost | null;
}

export interface Change {
  pointer: string;
  from?: unknown;
  to?: unknown;
  cost_micros?: number | null;
}

export interface Order {
  id: string;
  name: string;
  tenant?: string;
  state: string;
  phase?: string | null;
  attention?: string | null;
  reasons?: Reason[];
  plan?: Plan | null;
  quote_id?: string | null;
  created: string;
  updated?: string;
  observed_age_ms?: number | null;
  stale?: boolean;
  generation?: number;
  cost?: Cost | null;
}

export interface Explanation extends Order {
  sites?: Verdict[];
  would_fit_if?: Change[];
}

export interface OrderEvent {
  seq: number;
  at: string;
  kind: string;
  phase?: string | null;
  detail?: Record<string, unknown> | null;
  message?: string | null;
}

export interface UsageItem {
  kind: string;
  site?: string | null;
  link?: string | null;
  quantity: number | string;
  cost_micros: number;
}

export interface Usage {
  items: UsageItem[];
  total_micros?: number;
  currency?: string;
}

/** Output as it arrived: any number of lines, the last one perhaps not whole. */
export interface LogChunk {
  generation?: number;
  component?: string;
  replica?: number;
  text: string;
}

export interface Quote {
  id: string;
  expires?: string | null;
  binding?: boolean;
  outcome: string;
  plan?: Plan | null;
  reasons?: Reason[];
  would_fit_if?: Change[];
  sites?: Verdict[];
}

export interface Route {
  order: string;
  order_name?: string;
  generation?: number;
  leg?: number;
  flow?: number;
  from: string;
  to: string;
  path: string[];
  provider?: string | null;
  encrypted?: boolean;
  rate_kbps?: number;
  protected?: boolean;
  /** One-way delay promised of the path. */
  promised_us?: number | null;
  state: string;
  /** Why it is out of its promise. */
  trouble?: string | null;
  /** Moves within the last hour. */
  moves?: number;
  measured?: RouteFigures | null;
  /** Paths beside the one that carries. */
  others?: { role: "backup" | "next" | "leaving" | "closing"; path: string[]; active: boolean; measured?: RouteFigures | null }[];
  /** Bytes seen at each point, in path order. */
  hops?: { point: string; bytes: number }[];
}

export interface RouteFigures {
  /** Over the path itself, before it carried or while it stands by. */
  latency_us?: number | null;
  /** By the probes of its links, now. */
  links_latency_us?: number | null;
  arrived_kbps?: number | null;
  sent_kbps?: number | null;
}

export interface Region {
  name: string;
  at: string;
  access_us?: number;
}

export interface Dataset {
  name: string;
  size_bytes?: number;
  at: string[];
}

export interface FourMetrics {
  utilisation_pct?: number | null;
  queue_s_mean?: number | null;
  completion_s_mean?: number | null;
  cost_per_accelerator_hour_micros?: number | null;
  accelerators_total?: number;
  accelerators_held?: number;
  /** How many ended orders the means are of. */
  orders?: number;
  currency?: string;
}

export interface Problem {
  type?: string;
  title?: string;
  status?: number;
  detail?: string;
  errors?: { pointer: string; reason: string }[];
  refusals?: (Reason & { would_fit_if?: unknown })[];
}

/** What arrived, with the local time it arrived at, so that an age can go on growing on the screen. */
export type Received<T> = T & { received_at: number };
