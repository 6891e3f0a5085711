import type { ReactNode } from "react";

import { useFourMetrics } from "../api/queries";
import { useI18n } from "../i18n";
import { useCurrency } from "./tags";

/** Utilisation, queue time, completion time and cost per unit of compute. */
export function Metrics(): ReactNode {
  const { t, format } = useI18n();
  const { data } = useFourMetrics();
  const federation = useCurrency();
  const currency = data?.currency ?? federation;

  const seconds = (mean: number | null | undefined): string | null => (typeof mean === "number" ? format.duration(mean * 1000) : null);
  const ended = data?.orders ? t("metric.orders", { count: data.orders }) : data ? t("metric.nodata") : "";
  const held = typeof data?.accelerators_total === "number" ? t("metric.held", { held: data.accelerators_held ?? 0, total: data.accelerators_total }) : "";
  const cost = data?.cost_per_accelerator_hour_micros;

  return (
    <section className="metrics" aria-label={t("metric.label")}>
      <Tile
        name={t("metric.utilisation")}
        value={typeof data?.utilisation_pct === "number" ? format.percent(data.utilisation_pct / 100) : null}
        note={held}
        level={data?.utilisation_pct ?? null}
      />
      <Tile name={t("metric.queue")} value={seconds(data?.queue_s_mean)} note={ended} />
      <Tile name={t("metric.completion")} value={seconds(data?.completion_s_mean)} note={ended} />
      <Tile name={t("metric.cost")} value={typeof cost === "number" ? format.money(cost, currency) : null} note={t("metric.cost.note")} />
    </section>
  );
}

function Tile({ name, value, note, level = null }: { name: string; value: string | null; note: string; level?: number | null }): ReactNode {
  return (
    <div className="metric">
      <h2>{name}</h2>
      <p className="metric-value">{value ?? "–"}</p>
      <p className="metric-note">{note}</p>
      {level !== null && (
        <span className="metric-level" aria-hidden="true">
          <span style={{ width: `${Math.min(100, Math.max(0, level))}%` }} />
        </span>
      )}
    </div>
  );
}
