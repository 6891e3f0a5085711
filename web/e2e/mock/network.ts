// A small federation: places are real, figures are made up but plausible.

export interface MockLink {
  id: string;
  from: string;
  to: string;
  configured_latency_us: number;
  latency_us: number | null;
  rtt_us: { min: number; p50: number; p95: number } | null;
  loss_ppm: number | null;
  jitter_us: number | null;
  capacity_kbps: number;
  available_kbps: number | null;
  reserved_kbps: number;
  age_ms: number | null;
  stale: boolean;
  estimated: boolean;
  provider: string;
  per_gb_micros: number;
  per_mbps_hour_micros: number;
  jurisdictions: string[];
  encrypted: boolean;
}

/** Six hours of windows of ten minutes with a slow swing, one hour of silence and one bad window. */
export function makeWindows(now_ms: number) {
  return Array.from({ length: 36 }, (_, index) => {
    const silent = index >= 18 && index < 24;
    const swing = Math.round(900 * Math.sin(index / 5)) + (index === 30 ? 6_000 : 0);
    const min = 21_400 + Math.round(swing / 3);
    return {
      at: new Date(now_ms - (35 - index) * 600_000).toISOString(),
      window_us: 600_000_000,
      sent: 3_000,
      received: silent ? 0 : 2_994,
      rtt_us: silent ? null : { min, p50: min + 320 + Math.abs(swing), p95: min + 1_100 + 2 * Math.abs(swing), p99: min + 2_300 + 3 * Math.abs(swing) },
      loss_ppm: silent ? 1_000_000 : index === 30 ? 21_000 : 2_000,
    };
  });
}

type Tier = "core" | "cloud" | "edge" | "device";

const GIB = 1024 ** 3;
const HOLDER = "0197a2c4-5d10-7c3e-9a41-6f2b8d0e1a01";
const SERVICE = "0197a2c4-61f2-7b08-8c52-0d9e7a4c3b02";

interface Sketch {
  name: string;
  tier: Tier;
  lat: number;
  lon: number;
  jurisdiction: string;
  model: string;
  nodes: number;
  devices: number;
  islands: number | null;
  price: number;
  state?: string;
  labels?: string[];
}

const SKETCHES: Sketch[] = [
  { name: "shanghai-1", tier: "core", lat: 31.23, lon: 121.47, jurisdiction: "CN", model: "H100", nodes: 4, devices: 8, islands: 8, price: 28, labels: ["gov-cloud"] },
  { name: "beijing-1", tier: "core", lat: 39.9, lon: 116.4, jurisdiction: "CN", model: "A100", nodes: 3, devices: 8, islands: 4, price: 12 },
  { name: "guiyang-1", tier: "core", lat: 26.65, lon: 106.63, jurisdiction: "CN", model: "Ascend910B", nodes: 4, devices: 8, islands: 8, price: 9, labels: ["gov-cloud"] },
  { name: "wuhan-edge", tier: "edge", lat: 30.59, lon: 114.3, jurisdiction: "CN", model: "L40S", nodes: 1, devices: 4, islands: null, price: 7 },
  { name: "shenzhen-edge", tier: "edge", lat: 22.54, lon: 114.06, jurisdiction: "CN", model: "L40S", nodes: 1, devices: 2, islands: null, price: 7.5 },
  { name: "singapore-1", tier: "cloud", lat: 1.35, lon: 103.82, jurisdiction: "SG", model: "H100", nodes: 2, devices: 8, islands: 8, price: 31 },
  { name: "tokyo-1", tier: "cloud", lat: 35.68, lon: 139.69, jurisdiction: "JP", model: "A100", nodes: 2, devices: 8, islands: 8, price: 15, state: "draining" },
  { name: "frankfurt-1", tier: "cloud", lat: 50.11, lon: 8.68, jurisdiction: "DE", model: "H100", nodes: 2, devices: 8, islands: 8, price: 26 },
  { name: "london-edge", tier: "edge", lat: 51.51, lon: -0.13, jurisdiction: "GB", model: "L40S", nodes: 1, devices: 4, islands: null, price: 10 },
  { name: "oregon-1", tier: "cloud", lat: 45.59, lon: -121.18, jurisdiction: "US", model: "H100", nodes: 3, devices: 8, islands: 8, price: 24, state: "lost" },
];

function devicesOf(sketch: Sketch, node: number) {
  return Array.from({ length: sketch.devices }, (_, index) => {
    const held = sketch.name === "shanghai-1" && node < 2 ? HOLDER : sketch.name === "wuhan-edge" && index === 0 ? SERVICE : null;
    const sliced = sketch.name === "shanghai-1" && node === 2 && index > 5;
    return {
      index,
      model: sketch.model,
      memory_bytes: 80 * GIB,
      island: sketch.islands === null ? null : Math.floor(index / sketch.islands),
      health: sketch.name === "beijing-1" && node === 1 && index === 5 ? "failed" : "ok",
      order: sliced ? HOLDER : held,
      share: sliced ? 500 : sketch.name === "wuhan-edge" && held ? 250 : held ? 1000 : 0,
      isolation: sketch.name === "wuhan-edge" && held ? "advisory" : null,
      numa: sketch.devices > 4 ? Math.floor(index / 4) : null,
      pcie: sketch.devices > 4 ? Math.floor(index / 2) : null,
      mig: sketch.model === "H100" ? (sliced ? "on" : "off") : null,
      slices: sliced
        ? [
            { number: 0, profile: "3g.40gb", memory_bytes: 40 * GIB, uuid: "MIG-5a1c", order: HOLDER, isolation: "enforced" },
            { number: 1, profile: "1g.10gb", memory_bytes: 10 * GIB, uuid: "MIG-77b0", order: null, isolation: "enforced" },
          ]
        : [],
      can_be_cut: sliced ? { "1g.10gb": 2, "2g.20gb": 1 } : {},
      utilisation_pct: held ? 60 + ((index * 7) % 40) : 0,
      temperature_mc: 31_000 + index * 2_000,
      power_mw: held ? 540_000 : 71_000,
      notes: sketch.name === "beijing-1" && node === 1 && index === 5 ? ["health: error Xid 79 was reported"] : [],
    };
  });
}

function siteOf(sketch: Sketch) {
  const nodes = Array.from({ length: sketch.nodes }, (_, index) => {
    const devices = devicesOf(sketch, index);
    const held = devices.filter((device) => device.order).length;
    return {
      name: `${sketch.name}-n${index}`,
      rack: `r${Math.floor(index / 2)}`,
      nvl_domain: null,
      ports: [{ name: "eth0", rate_kbps: 100_000_000, numa: 0 }],
      cpu_milli_total: 96_000,
      cpu_milli_free: 96_000 - held * 8_000,
      memory_bytes_total: 1024 * GIB,
      memory_bytes_free: (1024 - held * 64) * GIB,
      devices,
    };
  });
  const all = nodes.flatMap((node) => node.devices);
  const state = sketch.state ?? "ready";
  return {
    name: sketch.name,
    tier: sketch.tier,
    lat_micro: Math.round(sketch.lat * 1e6),
    lon_micro: Math.round(sketch.lon * 1e6),
    place: { lat: sketch.lat, lon: sketch.lon },
    jurisdiction: sketch.jurisdiction,
    labels: sketch.labels ?? [],
    state,
    observed_age_ms: state === "lost" ? 418_000 : 900,
    stale: state === "lost",
    accelerators: [{ model: sketch.model, total: all.length, free: all.filter((device) => !device.order && device.health === "ok").length }],
    nodes,
    prices: { currency: "CNY", devices: { [sketch.model]: Math.round(sketch.price * 1e6) } },
  };
}

export type MockSite = ReturnType<typeof siteOf>;

export function makeSites(): MockSite[] {
  return SKETCHES.map(siteOf);
}

export const TRANSIT = [
  { name: "pop-xian", state: "ready", place: { lat: 34.34, lon: 108.94 }, relay: true, jurisdiction: "CN", observed_age_ms: 700, stale: false },
  { name: "pop-hongkong", state: "ready", place: { lat: 22.32, lon: 114.17 }, relay: true, jurisdiction: "HK", observed_age_ms: 650, stale: false },
  { name: "pop-marseille", state: "never_seen", place: { lat: 43.3, lon: 5.37 }, relay: false, jurisdiction: "FR", observed_age_ms: null, stale: false },
];

interface Cable {
  id: string;
  from: string;
  to: string;
  ms: number;
  mbps: number;
  provider: string;
  jurisdictions: string[];
  measured?: number | null;
  reserved?: number;
}

const CABLES: Cable[] = [
  { id: "sh-wh", from: "shanghai-1", to: "wuhan-edge", ms: 6.1, mbps: 200, provider: "carrier-a", jurisdictions: ["CN"], reserved: 0.82 },
  { id: "sh-bj", from: "shanghai-1", to: "beijing-1", ms: 12.4, mbps: 200, provider: "carrier-a", jurisdictions: ["CN"], reserved: 0.5 },
  { id: "sh-bj-b", from: "shanghai-1", to: "beijing-1", ms: 14.9, mbps: 100, provider: "carrier-b", jurisdictions: ["CN"] },
  { id: "wh-xa", from: "wuhan-edge", to: "pop-xian", ms: 7.2, mbps: 150, provider: "carrier-b", jurisdictions: ["CN"], reserved: 0.2 },
  { id: "xa-bj", from: "pop-xian", to: "beijing-1", ms: 9.8, mbps: 150, provider: "carrier-b", jurisdictions: ["CN"], measured: 41.7 },
  { id: "xa-gy", from: "pop-xian", to: "guiyang-1", ms: 10.5, mbps: 150, provider: "carrier-a", jurisdictions: ["CN"] },
  { id: "gy-sz", from: "guiyang-1", to: "shenzhen-edge", ms: 8.9, mbps: 100, provider: "carrier-a", jurisdictions: ["CN"] },
  { id: "sz-hk", from: "shenzhen-edge", to: "pop-hongkong", ms: 1.1, mbps: 100, provider: "carrier-c", jurisdictions: ["CN", "HK"] },
  { id: "sh-hk", from: "shanghai-1", to: "pop-hongkong", ms: 15.2, mbps: 100, provider: "carrier-c", jurisdictions: ["CN", "HK"], reserved: 0.95 },
  { id: "hk-sg", from: "pop-hongkong", to: "singapore-1", ms: 17.4, mbps: 100, provider: "carrier-c", jurisdictions: ["HK", "SG"] },
  { id: "sh-ty", from: "shanghai-1", to: "tokyo-1", ms: 16.8, mbps: 80, provider: "carrier-d", jurisdictions: ["CN", "JP"] },
  { id: "ty-or", from: "tokyo-1", to: "oregon-1", ms: 47.9, mbps: 50, provider: "carrier-d", jurisdictions: ["JP", "US"], measured: null },
  { id: "sg-fr", from: "singapore-1", to: "pop-marseille", ms: 78.3, mbps: 50, provider: "carrier-e", jurisdictions: [], measured: null },
  { id: "ms-fr", from: "pop-marseille", to: "frankfurt-1", ms: 7.4, mbps: 50, provider: "carrier-e", jurisdictions: ["FR", "DE"], measured: null },
  { id: "bj-fr", from: "beijing-1", to: "frankfurt-1", ms: 71.6, mbps: 50, provider: "carrier-f", jurisdictions: [] },
  { id: "fr-ld", from: "frankfurt-1", to: "london-edge", ms: 6.6, mbps: 100, provider: "carrier-e", jurisdictions: ["DE", "GB"] },
];

export function makeLinks(): MockLink[] {
  return CABLES.flatMap((cable) => [linkOf(cable, cable.id, cable.from, cable.to), linkOf(cable, `${cable.id}~`, cable.to, cable.from)]);
}

function linkOf(cable: Cable, id: string, from: string, to: string): MockLink {
  const opaque = cable.from === "pop-marseille" || cable.to === "pop-marseille";
  const configured = Math.round(cable.ms * 1000);
  const lost = cable.measured === null && !opaque;
  const measured = opaque ? null : cable.measured === undefined || cable.measured === null ? configured + 180 : Math.round(cable.measured * 1000);
  const capacity = cable.mbps * 1000;
  const reserved = Math.round(capacity * (cable.reserved ?? 0));
  return {
    id,
    from,
    to,
    configured_latency_us: configured,
    latency_us: measured,
    rtt_us: measured === null ? null : { min: measured * 2 - 300, p50: measured * 2, p95: measured * 2 + 1400 },
    loss_ppm: measured === null ? null : 100,
    jitter_us: measured === null ? null : 210,
    capacity_kbps: capacity,
    available_kbps: measured === null ? null : capacity - reserved,
    reserved_kbps: reserved,
    age_ms: opaque ? null : lost ? 420_000 : 1_200,
    // As the server does: what was never measured is stale as well.
    stale: lost || opaque,
    estimated: opaque,
    provider: cable.provider,
    per_gb_micros: 20_000,
    per_mbps_hour_micros: 10_000,
    jurisdictions: cable.jurisdictions,
    encrypted: cable.provider === "carrier-f",
  };
}

export const DATASETS = [
  { name: "corpus", size_bytes: 48_000_000, at: ["shanghai-1", "guiyang-1"] },
  { name: "street-video", size_bytes: 21_000_000, at: ["shenzhen-edge"] },
];

export const REGIONS = [
  { name: "wuhan-users", at: "wuhan-edge", access_us: 2_000 },
  { name: "london-users", at: "london-edge", access_us: 3_000 },
];

export const METRICS = {
  utilisation_pct: 12.9,
  queue_s_mean: 4.2,
  completion_s_mean: 64.8,
  cost_per_accelerator_hour_micros: 19_840_000,
  accelerators_total: 194,
  accelerators_held: 25,
  orders: 3,
  currency: "CNY",
};

export { HOLDER, SERVICE };
