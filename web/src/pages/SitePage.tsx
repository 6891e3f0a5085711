import type { ReactNode } from "react";

import { useLinks, useSite } from "../api/queries";
import type { Received, Site } from "../api/types";
import { useI18n } from "../i18n";
import { Answer } from "../parts/Answer";
import { LinkTable } from "../parts/LinkTable";
import { NodePicture } from "../parts/NodePicture";
import { StateTag, useAge } from "../parts/tags";
import { href } from "../router";

export default function SitePage({ name }: { name: string }): ReactNode {
  const site = useSite(name);
  return (
    <div className="page">
      <Answer query={site}>{(known) => <Known site={known} />}</Answer>
    </div>
  );
}

function Known({ site }: { site: Received<Site> }): ReactNode {
  const { t, word, format } = useI18n();
  const links = useLinks();
  const nodes = site.nodes ?? [];
  const age = useAge(site, site.observed_age_ms);
  const prices = Object.entries(site.prices?.devices ?? {});
  const here = (links.data ?? []).filter((link) => link.from === site.name || link.to === site.name);

  return (
    <>
      <header className="page-head">
        <p className="crumb">
          <a href={href(["sites"])}>{t("sites.title")}</a>
        </p>
        <h1>{site.name}</h1>
        <StateTag kind="site" value={site.state} />
      </header>
      {site.stale && age && (
        <p className="banner is-warn" role="status">
          {t("sites.stale", { age })}
        </p>
      )}
      <dl className="facts">
        <dt>{t("col.tier")}</dt>
        <dd>{word("tier", site.tier)}</dd>
        <dt>{t("col.jurisdiction")}</dt>
        <dd>{site.jurisdiction ?? "–"}</dd>
        <dt>{t("sites.place")}</dt>
        <dd>
          {site.place ? `${format.number(site.place.lat)}°, ${format.number(site.place.lon)}°` : t("unknown")}
        </dd>
        <dt>{t("sites.labels")}</dt>
        <dd>{site.labels && site.labels.length > 0 ? site.labels.join(", ") : t("none")}</dd>
        <dt>{t("sites.observed")}</dt>
        <dd>
          {age === null ? t("sites.never") : t("sites.ago", { age })}
        </dd>
        {prices.length > 0 && (
          <>
            <dt>{t("col.price")}</dt>
            <dd>{prices.map(([model, micros]) => `${model} ${format.money(micros, site.prices?.currency ?? "CNY")}`).join(" · ")}</dd>
          </>
        )}
      </dl>
      <section aria-labelledby="nodes">
        <h2 id="nodes">{t("sites.nodes")}</h2>
        {nodes.length === 0 ? (
          <p className="hint">{t("sites.nonodes")}</p>
        ) : (
          <>
            <ul className="device-key">
              <li>
                <span className="device is-free" /> {t("sites.free")}
              </li>
              <li>
                <span className="device is-held" /> {t("sites.held")}
              </li>
              <li>
                <span className="device is-sliced" /> {t("sites.inslices")}
              </li>
              <li>
                <span className="device is-sick" /> {t("sites.sick")}
              </li>
            </ul>
            <div className="nodes">
              {nodes.map((node) => (
                <NodePicture key={node.name} node={node} />
              ))}
            </div>
          </>
        )}
      </section>
      {here.length > 0 && (
        <section aria-labelledby="links">
          <h2 id="links">{t("sites.links")}</h2>
          <LinkTable links={here} />
        </section>
      )}
    </>
  );
}
