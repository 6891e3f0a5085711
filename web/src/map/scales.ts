import type { Link } from "../api/types";

export type Colouring = "delay" | "use";

/** Upper ends of the classes; the last class has none. Colours are the CSS variables --scale-0 to --scale-4. */
export const DELAY_STEPS_US = [5_000, 20_000, 60_000, 150_000] as const;
export const USE_STEPS = [0.1, 0.4, 0.7, 0.9] as const;

export function delayOf(link: Link): number | null {
  return link.latency_us ?? null;
}

/** The part of a link's capacity that is reserved. */
export function useOf(link: Link): number | null {
  if (!link.capacity_kbps) return null;
  return (link.reserved_kbps ?? 0) / link.capacity_kbps;
}

/** 0 to 4, or null where there is no figure. */
export function classOf(link: Link, colouring: Colouring): number | null {
  const value = colouring === "delay" ? delayOf(link) : useOf(link);
  if (value === null) return null;
  const steps: readonly number[] = colouring === "delay" ? DELAY_STEPS_US : USE_STEPS;
  const at = steps.findIndex((end) => value < end);
  return at < 0 ? steps.length : at;
}

/** How much slower than configured counts as worth saying: a tenth and a millisecond. */
export function isSlow(link: Link): boolean {
  const measured = delayOf(link);
  return measured !== null && !link.estimated && measured > link.configured_latency_us * 1.1 + 1_000;
}
