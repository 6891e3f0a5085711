import type { ReactNode } from "react";

import type { Link } from "../api/types";
import { useI18n } from "../i18n";
import { isSlow, useOf } from "../map/scales";
import { href } from "../router";
import { Age } from "./tags";

/** Measured beside configured, one row a direction. */
export function LinkTable({ links }: { links: readonly Link[] }): ReactNode {
  const { t } = useI18n();
  return (
    <div className="table-box">
      <table>
        <caption className="visually-hidden">{t("links.title")}</caption>
        <thead>
          <tr>
            <th scope="col">{t("col.link")}</th>
            <th scope="col">
              {t("col.from")} → {t("col.to")}
            </th>
            <th scope="col" className="num">
              {t("col.measured")}
            </th>
            <th scope="col" className="num">
              {t("col.configured")}
            </th>
            <th scope="col" className="num">
              {t("col.difference")}
            </th>
            <th scope="col" className="num">
              {t("col.jitter")}
            </th>
            <th scope="col" className="num">
              {t("col.loss")}
            </th>
            <th scope="col" className="num">
              {t("col.capacity")}
            </th>
            <th scope="col">{t("col.use")}</th>
            <th scope="col" className="num">
              {t("col.age")}
            </th>
          </tr>
        </thead>
        <tbody>
          {links.map((link) => (
            <LinkRow key={link.id} link={link} />
          ))}
        </tbody>
      </table>
    </div>
  );
}

function LinkRow({ link }: { link: Link }): ReactNode {
  const { t, format } = useI18n();
  const measured = link.latency_us ?? null;
  const use = useOf(link);
  return (
    <tr data-link={link.id}>
      <th scope="row">
        <a className="row-link" href={href(["links", link.id])}>
          {link.id}
        </a>
        {link.estimated && <span className="flag">{t("links.estimated")}</span>}
        {link.stale && <span className="flag is-warn">{t("links.stale")}</span>}
      </th>
      <td>
        {link.from} → {link.to}
      </td>
      <td className="num is-measured">{measured === null ? "–" : format.latency(measured)}</td>
      <td className="num">{format.latency(link.configured_latency_us)}</td>
      <td className={`num ${isSlow(link) ? "is-warn-text" : "is-dim"}`}>{measured === null ? "–" : format.latencyDelta(measured - link.configured_latency_us)}</td>
      <td className="num">{typeof link.jitter_us === "number" ? format.latency(link.jitter_us) : "–"}</td>
      <td className="num">{typeof link.loss_ppm === "number" ? format.loss(link.loss_ppm) : "–"}</td>
      <td className="num">{format.rate(link.capacity_kbps)}</td>
      <td>
        {use !== null && (
          <span className="use">
            <span className="use-bar" aria-hidden="true">
              <span style={{ width: `${Math.min(100, use * 100)}%` }} />
            </span>
            {format.percent(use)}
          </span>
        )}
      </td>
      <td className={`num ${link.stale ? "is-warn-text" : ""}`}>
        <Age item={link} age_ms={link.age_ms} />
      </td>
    </tr>
  );
}
