import { type ReactNode, useSyncExternalStore } from "react";

import { useSites } from "../api/queries";
import { useI18n } from "../i18n";

const TICK_MS = 1_000;
let now = Date.now();
let timer: ReturnType<typeof setInterval> | undefined;
const listeners = new Set<() => void>();

function subscribe(listener: () => void): () => void {
  listeners.add(listener);
  timer ??= setInterval(() => {
    now = Date.now();
    listeners.forEach((each) => each());
  }, TICK_MS);
  return () => {
    listeners.delete(listener);
    if (listeners.size > 0) return;
    clearInterval(timer);
    timer = undefined;
  };
}

/** The time, once a second, from one timer for the whole page. */
export function useNow(): number {
  return useSyncExternalStore(subscribe, () => now);
}

const TONES: Record<string, string> = {
  ready: "good",
  active: "good",
  completed: "good",
  chosen: "good",
  inProgress: "busy",
  acknowledged: "busy",
  building: "busy",
  moving: "busy",
  cancelling: "warn",
  terminating: "warn",
  draining: "warn",
  degraded: "warn",
  pending: "warn",
  held: "warn",
  partial: "warn",
  dearer: "plain",
  refused: "bad",
  lost: "bad",
  failed: "bad",
  rejected: "bad",
};

/** A state as a word with a mark; the mark alone never carries the meaning. */
export function StateTag({ kind, value, detail }: { kind: string; value: string; detail?: string | null | undefined }): ReactNode {
  const { word } = useI18n();
  return (
    <span className={`tag is-${TONES[value] ?? "plain"}`} data-state={value}>
      {word(kind, value)}
      {detail && <span className="tag-detail">{detail}</span>}
    </span>
  );
}

/** The state of an order: while in progress the phase says more than the word does. */
export function OrderState({ order }: { order: { state: string; phase?: string | null; stale?: boolean } }): ReactNode {
  const { word, t } = useI18n();
  const phase = order.phase && order.state !== "completed" ? word("phase", order.phase) : null;
  return (
    <>
      <StateTag kind="state" value={order.state} detail={phase} />
      {order.stale && <span className="flag is-warn">{t("links.stale")}</span>}
    </>
  );
}

interface AgeProps {
  item: object;
  age_ms: number | null | undefined;
  /** What to say where nothing was ever heard. */
  never?: string;
}

/** How old a figure is by now: its age when it arrived, and the time since. */
export function Age({ item, age_ms, never }: AgeProps): ReactNode {
  return <span className="age">{useAge(item, age_ms) ?? never ?? "–"}</span>;
}

export function useAge(item: object, age_ms: number | null | undefined): string | null {
  const { format } = useI18n();
  const time = useNow();
  if (age_ms === null || age_ms === undefined) return null;
  const since = "received_at" in item ? Math.max(0, time - Number(item.received_at)) : 0;
  const seconds = Math.round((age_ms + since) / 1000);
  return format.duration(Math.max(1, seconds) * 1000);
}

export function Time({ at }: { at: string | null | undefined }): ReactNode {
  const { format } = useI18n();
  if (!at) return "–";
  return (
    <time dateTime={at} title={format.timeFull(at)}>
      {format.time(at)}
    </time>
  );
}

/** The federation's currency, for answers that carry amounts alone. */
export function useCurrency(): string {
  return useSites().data?.find((site) => site.prices?.currency)?.prices?.currency ?? "CNY";
}
