// Integers with units, as the server sends them, written for people. Pure, apart from Intl.

export interface Format {
  money: (micros: number, currency: string) => string;
  /** With a sign, for differences. */
  moneyDelta: (micros: number, currency: string) => string;
  latency: (us: number) => string;
  latencyDelta: (us: number) => string;
  rate: (kbps: number) => string;
  bytes: (bytes: number) => string;
  /** Memory, in binary units. */
  memory: (bytes: number) => string;
  loss: (ppm: number) => string;
  percent: (ratio: number) => string;
  signedPercent: (ratio: number) => string;
  number: (value: number, digits?: number) => string;
  /** Lengths of time: 850 ms, 4.2 s, 3 min 5 s, 2 h 10 min, 3 d 4 h. */
  duration: (ms: number) => string;
  /** Time of day, with the date when it is not today. */
  time: (rfc3339: string) => string;
  timeFull: (rfc3339: string) => string;
  /** Any field whose name ends with its unit; text stays as it is. */
  quantity: (value: unknown, name?: string) => string;
}

const NBSP = "\u00a0";
const MINUS = "\u2212";

export function createFormat(locale: string): Format {
  const numbers = new Map<string, Intl.NumberFormat>();
  const plain = (value: number, digits: number): string => intl(numbers, locale, { maximumFractionDigits: digits, minimumFractionDigits: 0 }).format(value);
  const fixed = (value: number, digits: number): string => intl(numbers, locale, { maximumFractionDigits: digits, minimumFractionDigits: digits }).format(value);
  const unit = (value: number, name: string, digits: number): string =>
    intl(numbers, locale, { style: "unit", unit: name, unitDisplay: "short", maximumFractionDigits: digits }).format(value);
  const clock = new Intl.DateTimeFormat(locale, { hour: "2-digit", minute: "2-digit", second: "2-digit", hourCycle: "h23" });
  const dated = new Intl.DateTimeFormat(locale, { month: "short", day: "numeric", hour: "2-digit", minute: "2-digit", hourCycle: "h23" });
  const full = new Intl.DateTimeFormat(locale, { dateStyle: "medium", timeStyle: "long", hourCycle: "h23" });

  const money = (micros: number, currency: string): string => {
    const value = micros / 1e6;
    const digits = Math.abs(value) >= 0.995 || value === 0 ? 2 : Math.abs(value) >= 0.01 ? 4 : 6;
    const options = { style: "currency", currency, minimumFractionDigits: 2, maximumFractionDigits: digits } as const;
    try {
      return intl(numbers, locale, options).format(value);
    } catch {
      return `${fixed(value, digits)}${NBSP}${currency}`;
    }
  };

  const latency = (us: number): string => {
    const ms = us / 1000;
    return `${fixed(ms, Math.abs(ms) < 10 ? 2 : 1)}${NBSP}ms`;
  };

  const scaled = (value: number, base: number, units: readonly string[]): string => {
    let step = 0;
    let rest = value;
    while (Math.abs(rest) >= base && step < units.length - 1) {
      rest /= base;
      step += 1;
    }
    return `${plain(rest, Math.abs(rest) < 10 ? 2 : Math.abs(rest) < 100 ? 1 : 0)}${NBSP}${units[step] ?? ""}`;
  };

  const rate = (kbps: number): string => scaled(kbps, 1000, ["kbps", "Mbps", "Gbps", "Tbps"]);
  const bytes = (value: number): string => scaled(value, 1000, ["B", "kB", "MB", "GB", "TB", "PB"]);
  const memory = (value: number): string => scaled(value, 1024, ["B", "KiB", "MiB", "GiB", "TiB"]);
  const percent = (ratio: number): string =>
    intl(numbers, locale, { style: "percent", maximumFractionDigits: Math.abs(ratio) < 0.1 ? 1 : 0 }).format(ratio);

  const duration = (ms: number): string => {
    if (ms < 1000) return unit(Math.round(ms), "millisecond", 0);
    if (ms < 10_000) return unit(Math.floor(ms / 100) / 10, "second", 1);
    const seconds = Math.floor(ms / 1000);
    if (seconds < 60) return unit(seconds, "second", 0);
    const pair = (high: number, highName: string, low: number, lowName: string): string =>
      low === 0 ? unit(high, highName, 0) : `${unit(high, highName, 0)}${NBSP}${unit(low, lowName, 0)}`;
    const minutes = Math.floor(seconds / 60);
    if (minutes < 60) return pair(minutes, "minute", seconds % 60, "second");
    const hours = Math.floor(minutes / 60);
    if (hours < 48) return pair(hours, "hour", minutes % 60, "minute");
    return pair(Math.floor(hours / 24), "day", hours % 24, "hour");
  };

  const stamp = (text: string, write: (date: Date) => string): string => {
    const date = new Date(text);
    return Number.isNaN(date.getTime()) ? text : write(date);
  };

  const signed = (value: number, write: (magnitude: number) => string): string =>
    `${value > 0 ? "+" : value < 0 ? MINUS : "±"}${write(Math.abs(value))}`;

  const byUnit: [RegExp, (value: number) => string][] = [
    [/_us$/, latency],
    [/_kbps$/, rate],
    [/_ms$/, duration],
    [/_s$/, (value) => duration(value * 1000)],
    [/memory.*_bytes$/, memory],
    [/_bytes$/, bytes],
    [/_ppm$/, (value) => percent(value / 1e6)],
    [/_pct$/, (value) => percent(value / 100)],
    [/_micros$/, (value) => fixed(value / 1e6, 2)],
  ];

  const quantity = (value: unknown, name = ""): string => {
    if (value === null || value === undefined) return "";
    if (typeof value === "number") return (byUnit.find(([end]) => end.test(name))?.[1] ?? ((figure: number) => plain(figure, 3)))(value);
    if (typeof value === "string") return value;
    if (Array.isArray(value)) return value.map((item) => quantity(item, name)).join(", ");
    if (typeof value === "object") return Object.entries(value).map(([key, item]) => `${label(key)} ${quantity(item, key)}`).join(", ");
    return JSON.stringify(value);
  };

  return {
    money,
    moneyDelta: (micros, currency) => signed(micros, (magnitude) => money(magnitude, currency)),
    latency,
    latencyDelta: (us) => signed(us, latency),
    rate,
    bytes,
    memory,
    loss: (ppm) => intl(numbers, locale, { style: "percent", maximumFractionDigits: 3 }).format(ppm / 1e6),
    percent,
    signedPercent: (ratio) => signed(ratio, percent),
    number: (value, digits = 2) => plain(value, digits),
    duration,
    time: (text) => stamp(text, (date) => (date.toDateString() === new Date().toDateString() ? clock : dated).format(date)),
    timeFull: (text) => stamp(text, (date) => full.format(date)),
    quantity,
  };
}

function intl(cache: Map<string, Intl.NumberFormat>, locale: string, options: Intl.NumberFormatOptions): Intl.NumberFormat {
  const key = JSON.stringify(options);
  let made = cache.get(key);
  if (!made) {
    made = new Intl.NumberFormat(locale, options);
    cache.set(key, made);
  }
  return made;
}

/** The name of a field without its unit, in words. */
function label(key: string): string {
  return key.replace(/_(us|ms|s|kbps|bytes|ppm|pct|micros)$/, "").replaceAll("_", " ");
}
