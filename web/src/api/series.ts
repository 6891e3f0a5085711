// Figures of links collected since the console was opened, one ring per link, for the charts.
import { useSyncExternalStore } from "react";

import type { Link } from "./types";

export interface Sample {
  /** Seconds since the epoch, as the chart wants them. */
  at_s: number;
  latency_us: number | null;
  min_us: number | null;
  p95_us: number | null;
  configured_us: number;
  available_kbps: number | null;
  reserved_kbps: number;
  loss_ppm: number | null;
}

/** 30 minutes of one sample every 2 s. */
const RING = 900;
/** Beyond this many links only those longest followed are kept, so that a tab left open stays small. */
const MAX_LINKS = 300;

const rings = new Map<string, readonly Sample[]>();
const listeners = new Set<() => void>();
const NONE: readonly Sample[] = [];

export function record(links: readonly Link[], now_ms: number = Date.now()): void {
  for (const link of links) {
    const ring = rings.get(link.id) ?? NONE;
    if (ring === NONE && rings.size >= MAX_LINKS) continue;
    if (link.stale === true || link.latency_us === undefined) continue;
    rings.set(link.id, [...ring.slice(-(RING - 1)), sample(link, now_ms / 1000)]);
  }
  listeners.forEach((listener) => listener());
}

function sample(link: Link, at_s: number): Sample {
  return {
    at_s,
    latency_us: link.latency_us ?? null,
    min_us: link.rtt_us ? link.rtt_us.min / 2 : null,
    p95_us: link.rtt_us ? link.rtt_us.p95 / 2 : null,
    configured_us: link.configured_latency_us,
    available_kbps: link.available_kbps ?? null,
    reserved_kbps: link.reserved_kbps ?? 0,
    loss_ppm: link.loss_ppm ?? null,
  };
}

export function samplesOf(id: string): readonly Sample[] {
  return rings.get(id) ?? NONE;
}

export function forgetSeries(): void {
  rings.clear();
}

export function useSeries(id: string): readonly Sample[] {
  return useSyncExternalStore(
    (listener) => {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
    () => samplesOf(id),
  );
}
