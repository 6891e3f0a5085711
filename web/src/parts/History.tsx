import { lazy, type ReactNode, Suspense, useState } from "react";

import { useLinkHistory } from "../api/queries";
import type { LinkWindow } from "../api/types";
import { useI18n } from "../i18n";
import { Answer, Loading } from "./Answer";

const Chart = lazy(() => import("./Chart"));

/** How far to look back, in hours. */
const RANGES_H = [1, 6, 24, 168];
const DAY_H = 24;

const PERCENT_PPM = 10_000;

/** Percentile bands and loss of a link, from the windows that the server has kept. */
export function History({ id }: { id: string }): ReactNode {
  const { t } = useI18n();
  const [hours, setHours] = useState(6);
  const windows = useLinkHistory(id, hours);
  return (
    <section className="sheet" data-testid="history">
      <div className="history-head">
        <h2>{t("links.history")}</h2>
        <div className="history-range" role="group" aria-label={t("links.history.range")}>
          {RANGES_H.map((range) => (
            <button key={range} type="button" className="button" aria-pressed={range === hours} onClick={() => setHours(range)}>
              {range > DAY_H ? t("links.history.days", { count: range / DAY_H }) : t("links.history.hours", { count: range })}
            </button>
          ))}
        </div>
      </div>
      <Answer query={windows}>{(known) => <Bands windows={known} />}</Answer>
    </section>
  );
}

function Bands({ windows }: { windows: LinkWindow[] }): ReactNode {
  const { t, format } = useI18n();
  if (windows.length < 2) {
    return (
      <p className="hint" role="status">
        {t("links.history.empty")}
      </p>
    );
  }
  const at = windows.map((window) => Date.parse(window.at) / 1000);
  const rtt = (of: "min" | "p50" | "p95" | "p99"): (number | null)[] => windows.map((window) => window.rtt_us?.[of] ?? null);
  return (
    <>
      <Suspense fallback={<Loading />}>
        <Chart
          label={t("links.history")}
          at={at}
          unit={(value) => format.latency(value)}
          lines={[
            { name: t("links.series.p99"), colour: "--chart-high", values: rtt("p99") },
            { name: t("links.series.p95"), colour: "--chart-set", values: rtt("p95") },
            { name: t("links.series.p50"), colour: "--chart-main", width: 2, values: rtt("p50") },
            { name: t("links.series.min"), colour: "--chart-low", values: rtt("min") },
          ]}
          bands={[
            { high: 0, low: 1, colour: "--chart-high", opacity: 0.12 },
            { high: 1, low: 2, colour: "--chart-set", opacity: 0.14 },
            { high: 2, low: 3, colour: "--chart-main", opacity: 0.18 },
          ]}
        />
      </Suspense>
      <p className="hint">{t("links.history.note")}</p>
      <h2>{t("links.history.loss")}</h2>
      <Suspense fallback={<Loading />}>
        <Chart
          label={t("links.history.loss")}
          at={at}
          reach={PERCENT_PPM}
          unit={(value) => format.loss(value)}
          lines={[
            { name: t("links.series.loss"), colour: "--chart-high", width: 2, values: windows.map((window) => window.loss_ppm ?? null) },
            { name: t("links.series.loss.back"), colour: "--chart-main", values: windows.map((window) => window.loss_back_ppm ?? null) },
          ]}
        />
      </Suspense>
    </>
  );
}
