// What can be read off a plan. Pure.
import type { Cost, Order, OrderEvent, Plan, Usage, Verdict } from "../api/types";

export const PHASES = ["reserving", "holding", "routing", "staging", "starting", "running", "stopping", "unrouting", "releasing", "settling"] as const;

export const FINAL_STATES: ReadonlySet<string> = new Set(["rejected", "completed", "partial", "failed", "cancelled"]);

export const STATES = [
  "acknowledged",
  "pending",
  "held",
  "inProgress",
  "completed",
  "partial",
  "failed",
  "rejected",
  "cancelling",
  "cancelled",
] as const;

export function sitesOf(plan: Plan | null | undefined): Set<string> {
  return new Set((plan?.components ?? []).flatMap((component) => component.assignments.map((one) => one.site)));
}

export function linksOf(plan: Plan | null | undefined): Set<string> {
  return new Set((plan?.flows ?? []).flatMap((leg) => leg.path));
}

/** What of the plan runs at a site, as `trainer × 2, feeder × 1`. */
export function placedAt(plan: Plan | null, site: string): string {
  const here = (plan?.components ?? []).flatMap((component) =>
    component.assignments.filter((one) => one.site === site).map((one) => `${component.name} × ${one.replicas}`),
  );
  return here.join(", ");
}

export const COST_TERMS = ["compute", "path", "transfer", "time", "lateness", "fragmentation"] as const;
export type CostTerm = (typeof COST_TERMS)[number];

/** Terms in the order of the cost model; those of nothing are left out, but for compute. */
export function costTerms(cost: Cost): { term: CostTerm; micros: number }[] {
  return COST_TERMS.map((term) => ({ term, micros: cost[`${term}_micros`] ?? 0 })).filter(({ term, micros }) => micros !== 0 || term === "compute");
}

/** What the bill is held against: the terms that are paid, not those that only steer. */
export function billed(cost: Cost): number {
  return (cost.compute_micros ?? 0) + (cost.path_micros ?? 0) + (cost.transfer_micros ?? 0);
}

export function usageTotal(usage: Usage): number {
  return usage.total_micros ?? usage.items.reduce((sum, item) => sum + item.cost_micros, 0);
}

const VERDICT_RANK = ["chosen", "dearer", "refused"];

/** Chosen first, then by what they would cost more, then those that cannot. */
export function sortVerdicts(verdicts: readonly Verdict[]): Verdict[] {
  const rank = (verdict: Verdict): number => VERDICT_RANK.indexOf(verdict.verdict);
  return [...verdicts].sort(
    (a, b) => rank(a) - rank(b) || (a.delta_micros ?? 0) - (b.delta_micros ?? 0) || (a.site < b.site ? -1 : a.site > b.site ? 1 : 0),
  );
}

export type StepState = "done" | "now" | "ahead" | "skipped" | "broken";

export interface Step {
  phase: (typeof PHASES)[number];
  state: StepState;
  /** When the phase was entered, and how long it took or has taken. */
  at: string | null;
  took_ms: number | null;
}

/** The phases of an order as steps, from its events; what an order ended without reaching is skipped. */
export function steps(order: Order, events: readonly OrderEvent[], now_ms: number): Step[] {
  const entered = new Map<string, number>();
  for (const event of events) {
    const at = Date.parse(event.at);
    // The latest entry counts: an order placed again goes through its phases again.
    if (event.phase && lastPhaseBefore(events, event) !== event.phase) entered.set(event.phase, at);
  }
  const ended = FINAL_STATES.has(order.state);
  const current = ended ? -1 : PHASES.findIndex((phase) => phase === order.phase);
  const reached = [...entered.keys()].map((phase) => PHASES.findIndex((one) => one === phase));
  const furthest = ended ? Math.max(-1, ...reached) : current;
  const last = events.at(-1);
  const end = ended ? Date.parse(last?.at ?? order.updated ?? order.created) : now_ms;

  return PHASES.map((phase, index) => {
    const at = entered.get(phase) ?? null;
    const state: StepState =
      index === current ? "now" : index > furthest ? (ended ? "skipped" : "ahead") : index === furthest && order.state === "failed" ? "broken" : at === null && ended && order.state !== "completed" ? "skipped" : "done";
    if (at === null || state === "ahead") return { phase, state, at: null, took_ms: null };
    const next = Math.min(end, ...[...entered.values()].filter((one) => one > at));
    return { phase, state, at: new Date(at).toISOString(), took_ms: Math.max(0, next - at) };
  });
}

function lastPhaseBefore(events: readonly OrderEvent[], event: OrderEvent): string | null {
  const at = events.indexOf(event);
  for (let index = at - 1; index >= 0; index -= 1) {
    const phase = events[index]?.phase;
    if (phase) return phase;
  }
  return null;
}
