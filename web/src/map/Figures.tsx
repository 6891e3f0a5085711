import type { ReactNode } from "react";

import type { Link, Received, Site } from "../api/types";
import { useI18n } from "../i18n";
import { Age, StateTag } from "../parts/tags";
import type { Picked } from "./Marks";
import type { MapData } from "./NetworkMap";
import { isSlow, useOf } from "./scales";

/** The figures of one mark: in the tip beside it, and kept in the panel. */
export function Figures({ picked, data, brief = false }: { picked: Picked; data: MapData; brief?: boolean }): ReactNode {
  const { t } = useI18n();
  if (picked.kind === "link") {
    const link = data.links.find((one) => one.id === picked.id);
    return link ? <LinkFigures link={link} brief={brief} /> : null;
  }
  if (picked.kind === "site") {
    const site = data.sites.find((one) => one.name === picked.id);
    return site ? <SiteFigures site={site} data={data} /> : null;
  }
  const point = data.transit.find((one) => one.name === picked.id);
  if (!point) return null;
  return (
    <div className="figures">
      <h3>{point.name}</h3>
      <p className="figures-sub">
        {t(point.relay === false ? "tier.opaque" : "tier.transit")}
        {point.jurisdiction ? ` · ${point.jurisdiction}` : ""}
      </p>
      <Here name={point.name} data={data} />
    </div>
  );
}

export function LinkFigures({ link, titled = true, brief = false }: { link: Link | Received<Link>; titled?: boolean; brief?: boolean }): ReactNode {
  const { t, format } = useI18n();
  const measured = link.latency_us ?? null;
  const use = useOf(link);
  return (
    <div className="figures">
      {titled && <h3>{link.id}</h3>}
      <p className={titled ? "figures-sub" : ""}>
        {link.from} → {link.to}
        {link.provider ? ` · ${link.provider}` : ""}
      </p>
      <dl className="figures-pair">
        <div>
          <dt>{t("col.measured")}</dt>
          <dd className={isSlow(link) ? "is-slow" : ""}>{measured === null ? "–" : format.latency(measured)}</dd>
        </div>
        <div>
          <dt>{t("col.configured")}</dt>
          <dd>{format.latency(link.configured_latency_us)}</dd>
        </div>
      </dl>
      <dl className="figures-list">
        {!brief && link.rtt_us && (
          <>
            <dt>{t("col.rtt")}</dt>
            <dd>
              {format.latency(link.rtt_us.p50)} / {format.latency(link.rtt_us.p95)}
            </dd>
          </>
        )}
        {!brief && typeof link.loss_ppm === "number" && (
          <>
            <dt>{t("col.loss")}</dt>
            <dd>{format.loss(link.loss_ppm)}</dd>
          </>
        )}
        <dt>{t("col.reserved")}</dt>
        <dd>
          {format.rate(link.reserved_kbps ?? 0)} / {format.rate(link.capacity_kbps)}
          {use !== null && ` (${format.percent(use)})`}
        </dd>
        <dt>{t("col.age")}</dt>
        <dd>
          <Age item={link} age_ms={link.age_ms} />
          {link.stale && <span className="flag is-warn">{t("links.stale")}</span>}
          {link.estimated && <span className="flag">{t("links.estimated")}</span>}
        </dd>
      </dl>
    </div>
  );
}

function SiteFigures({ site, data }: { site: Site; data: MapData }): ReactNode {
  const { t, word, format } = useI18n();
  return (
    <div className="figures">
      <h3>{site.name}</h3>
      <p className="figures-sub">
        {word("tier", site.tier)}
        {site.jurisdiction ? ` · ${site.jurisdiction}` : ""} · <StateTag kind="site" value={site.state} />
      </p>
      {site.accelerators && site.accelerators.length > 0 && (
        <table className="figures-devices">
          <caption className="visually-hidden">{t("col.accelerators")}</caption>
          <tbody>
            {site.accelerators.map((group) => {
              const price = site.prices?.devices?.[group.model];
              return (
                <tr key={group.model}>
                  <th scope="row">{group.model}</th>
                  <td>{t("sites.of", { free: group.free, total: group.total })}</td>
                  <td>{price !== undefined && site.prices ? `${format.money(price, site.prices.currency)}/h` : ""}</td>
                </tr>
              );
            })}
          </tbody>
        </table>
      )}
      <Here name={site.name} data={data} />
      <p className="figures-sub">
        {t("col.age")} <Age item={site} age_ms={site.observed_age_ms} never={t("sites.never")} />
      </p>
    </div>
  );
}

function Here({ name, data }: { name: string; data: MapData }): ReactNode {
  const { t } = useI18n();
  const datasets = (data.datasets ?? []).filter((one) => one.at.includes(name)).map((one) => one.name);
  const regions = (data.regions ?? []).filter((one) => one.at === name).map((one) => one.name);
  if (datasets.length + regions.length === 0) return null;
  return (
    <dl className="figures-list">
      {datasets.length > 0 && (
        <>
          <dt>{t("map.here.datasets")}</dt>
          <dd>{datasets.join(", ")}</dd>
        </>
      )}
      {regions.length > 0 && (
        <>
          <dt>{t("map.here.regions")}</dt>
          <dd>{regions.join(", ")}</dd>
        </>
      )}
    </dl>
  );
}
