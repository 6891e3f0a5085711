import type { ReactNode } from "react";

import { useSites } from "../api/queries";
import type { Received, Site } from "../api/types";
import { useI18n } from "../i18n";
import { Answer, Empty } from "../parts/Answer";
import { Age, StateTag } from "../parts/tags";
import { href } from "../router";

export default function Sites(): ReactNode {
  const { t } = useI18n();
  const sites = useSites();
  return (
    <div className="page">
      <header className="page-head">
        <h1>{t("sites.title")}</h1>
      </header>
      <Answer query={sites}>{(known) => (known.length === 0 ? <Empty title={t("sites.empty")} hint={t("map.empty.hint")} /> : <SiteTable sites={known} />)}</Answer>
    </div>
  );
}

function SiteTable({ sites }: { sites: readonly Received<Site>[] }): ReactNode {
  const { t } = useI18n();
  return (
    <div className="table-box">
      <table>
        <caption className="visually-hidden">{t("sites.title")}</caption>
        <thead>
          <tr>
            <th scope="col">{t("col.site")}</th>
            <th scope="col">{t("col.state")}</th>
            <th scope="col">{t("col.tier")}</th>
            <th scope="col">{t("col.jurisdiction")}</th>
            <th scope="col">{t("col.accelerators")}</th>
            <th scope="col">{t("col.price")}</th>
            <th scope="col" className="num">
              {t("col.nodes")}
            </th>
            <th scope="col" className="num">
              {t("col.age")}
            </th>
          </tr>
        </thead>
        <tbody>
          {sites.map((site) => (
            <SiteRow key={site.name} site={site} />
          ))}
        </tbody>
      </table>
    </div>
  );
}

function SiteRow({ site }: { site: Received<Site> }): ReactNode {
  const { t, word, format } = useI18n();
  const groups = site.accelerators ?? [];
  return (
    <tr>
      <th scope="row">
        <a className="row-link" href={href(["sites", site.name])}>
          {site.name}
        </a>
      </th>
      <td>
        <StateTag kind="site" value={site.state} />
      </td>
      <td>{word("tier", site.tier)}</td>
      <td>{site.jurisdiction ?? "–"}</td>
      <td>
        {groups.length === 0 && "–"}
        {groups.map((group) => (
          <span key={group.model} className={site.stale ? "stock is-stale" : "stock"}>
            <span className="stock-model">{group.model}</span>
            <meter min={0} max={Math.max(1, group.total)} value={group.free} aria-label={`${group.model} ${t("sites.of", { free: group.free, total: group.total })}`} />
            <span className="stock-count">
              {group.free} / {group.total}
            </span>
          </span>
        ))}
      </td>
      <td>
        {groups.map((group) => {
          const price = site.prices?.devices?.[group.model];
          return (
            <span key={group.model} className="stock is-price">
              {price !== undefined && site.prices ? format.money(price, site.prices.currency) : "–"}
            </span>
          );
        })}
      </td>
      <td className="num">{site.nodes ? site.nodes.length : "–"}</td>
      <td className={`num ${site.stale ? "is-warn-text" : ""}`}>
        <Age item={site} age_ms={site.observed_age_ms} never={t("sites.never")} />
      </td>
    </tr>
  );
}
