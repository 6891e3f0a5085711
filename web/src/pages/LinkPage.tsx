import { Fragment, lazy, type ReactNode, Suspense } from "react";

import { useLink, useLinks } from "../api/queries";
import type { Link, Received } from "../api/types";
import { useSeries } from "../api/series";
import { useI18n } from "../i18n";
import { LinkFigures } from "../map/Figures";
import { History } from "../parts/History";
import { Answer, Loading } from "../parts/Answer";
import { useCurrency } from "../parts/tags";
import { href } from "../router";

const Chart = lazy(() => import("../parts/Chart"));

export default function LinkPage({ id }: { id: string }): ReactNode {
  const link = useLink(id);
  return (
    <div className="page">
      <Answer query={link}>{(known) => <Known link={known} />}</Answer>
    </div>
  );
}

function Known({ link }: { link: Received<Link> }): ReactNode {
  const { t } = useI18n();
  const reverse = (useLinks().data ?? []).filter((other) => other.from === link.to && other.to === link.from);
  return (
    <>
      <header className="page-head">
        <p className="crumb">
          <a href={href(["links"])}>{t("links.title")}</a>
        </p>
        <h1>{link.id}</h1>
        {link.estimated && <span className="flag">{t("links.estimated")}</span>}
        {link.stale && <span className="flag is-warn">{t("links.stale")}</span>}
        {link.disputed && <span className="flag is-warn">{t(link.disputed === "faster_than_light" ? "links.disputed.light" : "links.disputed.ends")}</span>}
      </header>
      <div className="link-grid">
        <section className="sheet">
          <LinkFigures link={link} titled={false} />
          <Contract link={link} />
          {reverse.length > 0 && (
            <p className="hint">
              {t("links.reverse")}:{" "}
              {reverse.map((other) => (
                <a key={other.id} href={href(["links", other.id])}>
                  {other.id}
                </a>
              ))}
            </p>
          )}
        </section>
        <div className="charts">
          <History id={link.id} />
          <Charts id={link.id} />
        </div>
      </div>
    </>
  );
}

function Contract({ link }: { link: Link }): ReactNode {
  const { t, word, format } = useI18n();
  const federation = useCurrency();
  const currency = link.currency ?? federation;
  return (
    <dl className="figures-list">
      <dt>{t("links.tariff")}</dt>
      <dd>
        {typeof link.per_gb_micros === "number" && t("links.tariff.gb", { money: format.money(link.per_gb_micros, currency) })}
        <br />
        {typeof link.per_mbps_hour_micros === "number" && t("links.tariff.mbps", { money: format.money(link.per_mbps_hour_micros, currency) })}
      </dd>
      {link.bandwidths && link.bandwidths.length > 0 && (
        <>
          <dt>{t("links.measured")}</dt>
          <dd>
            {link.bandwidths.map((known) => (
              <Fragment key={known.method}>
                {word("bandwidth", known.method)}: {format.rate(known.rate_kbps)}
                {known.method === "trains" && typeof known.available_kbps === "number" && ` (${t("links.free", { rate: format.rate(known.available_kbps) })})`}
                {", "}
                {t("links.confidence", { level: word("confidence", known.confidence) })}
                {known.method !== "reserved" && `, ${t("links.old", { age: format.duration(known.age_ms) })}`}
                <br />
              </Fragment>
            ))}
          </dd>
        </>
      )}
      {link.held_rtt_us && (
        <>
          <dt>{t("links.held")}</dt>
          <dd>
            {format.latency(link.held_rtt_us.min)} / {format.latency(link.held_rtt_us.p95)}
          </dd>
        </>
      )}
      {link.path_changed && (
        <>
          <dt>{t("links.path")}</dt>
          <dd>
            {format.time(link.path_changed.at)}
            {typeof link.path_changed.min_from_us === "number" &&
              typeof link.path_changed.min_to_us === "number" &&
              `: ${format.latency(link.path_changed.min_from_us)} → ${format.latency(link.path_changed.min_to_us)}`}
          </dd>
        </>
      )}
      <dt>{t("links.crosses")}</dt>
      <dd>{link.jurisdictions && link.jurisdictions.length > 0 ? link.jurisdictions.join(", ") : t("unknown")}</dd>
      <dt>{t("links.encryption")}</dt>
      <dd>{t(link.encrypted ? "links.encrypted" : "links.plain")}</dd>
    </dl>
  );
}

function Charts({ id }: { id: string }): ReactNode {
  const { t, format } = useI18n();
  const samples = useSeries(id);
  if (samples.length < 2) {
    return (
      <section className="sheet">
        <h2>{t("links.chart.delay")}</h2>
        <p className="hint" role="status">
          {t("links.chart.waiting")}
        </p>
      </section>
    );
  }
  const at = samples.map((sample) => sample.at_s);
  return (
    <>
      <section className="sheet" data-testid="chart">
        <h2>{t("links.chart.delay")}</h2>
        <Suspense fallback={<Loading />}>
          <Chart
            label={t("links.chart.delay")}
            at={at}
            unit={(value) => format.latency(value)}
            lines={[
              { name: t("links.series.min"), colour: "--chart-low", values: samples.map((sample) => sample.min_us) },
              { name: t("links.series.p50"), colour: "--chart-main", width: 2, values: samples.map((sample) => sample.latency_us) },
              { name: t("links.series.p95"), colour: "--chart-high", values: samples.map((sample) => sample.p95_us) },
              { name: t("links.series.configured"), colour: "--chart-set", dash: [6, 4], values: samples.map((sample) => sample.configured_us) },
            ]}
          />
        </Suspense>
      </section>
      <section className="sheet">
        <h2>{t("links.chart.rate")}</h2>
        <Suspense fallback={<Loading />}>
          <Chart
            label={t("links.chart.rate")}
            at={at}
            unit={(value) => format.rate(value)}
            lines={[
              { name: t("links.series.available"), colour: "--chart-main", width: 2, values: samples.map((sample) => sample.available_kbps) },
              { name: t("links.series.reserved"), colour: "--chart-high", values: samples.map((sample) => sample.reserved_kbps) },
            ]}
          />
        </Suspense>
      </section>
    </>
  );
}
