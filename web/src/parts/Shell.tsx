import { type MouseEvent, type ReactNode, useEffect, useRef } from "react";

import { useLive } from "../api/live";
import { type Key, useI18n } from "../i18n";
import { href, useLocation } from "../router";
import { signOut } from "../session";
import { nextTheme, useTheme } from "../theme";

const NAV: { key: Key; path: string[] }[] = [
  { key: "nav.map", path: [] },
  { key: "nav.orders", path: ["orders"] },
  { key: "nav.sites", path: ["sites"] },
  { key: "nav.links", path: ["links"] },
  { key: "nav.routes", path: ["routes"] },
];

/** Header, navigation and the live region around every page. */
export function Shell({ children }: { children: ReactNode }): ReactNode {
  const { t } = useI18n();
  const { path } = useLocation();
  const { news } = useLive();
  const main = useRef<HTMLElement>(null);
  const page = path.join("/");
  const first = useRef(true);

  // A new page starts at its top, for the eye and for the keyboard.
  useEffect(() => {
    if (first.current) {
      first.current = false;
      return;
    }
    main.current?.focus({ preventScroll: true });
    scrollTo(0, 0);
  }, [page]);

  const skip = (event: MouseEvent): void => {
    event.preventDefault();
    main.current?.focus();
  };

  return (
    <>
      <a className="skip" href="#main" onClick={skip}>
        {t("nav.skip")}
      </a>
      <header className="top">
        <a className="brand" href="#/">
          <Mark />
          <span>{t("app.name")}</span>
        </a>
        <nav aria-label={t("nav.label")}>
          {NAV.map((item) => (
            <a key={item.key} href={href(item.path)} aria-current={(path[0] ?? "") === (item.path[0] ?? "") ? "page" : undefined}>
              {t(item.key)}
            </a>
          ))}
        </nav>
        <div className="top-tools">
          <LineState />
          <LanguageButton />
          <ThemeButton />
          <button type="button" className="quiet" onClick={() => signOut()}>
            {t("nav.signout")}
          </button>
        </div>
      </header>
      <main id="main" ref={main} tabIndex={-1}>
        {children}
      </main>
      <p className="visually-hidden" aria-live="polite" role="status" data-testid="news">
        {news}
      </p>
    </>
  );
}

function LineState(): ReactNode {
  const { t } = useI18n();
  const { status } = useLive();
  return (
    <span className={`line-state is-${status}`} data-testid="line" role="status">
      {t(`live.${status}`)}
    </span>
  );
}

export function LanguageButton(): ReactNode {
  const { t, locale, setLocale } = useI18n();
  const other = locale === "en" ? "zh" : "en";
  return (
    <button
      type="button"
      className="quiet"
      lang={other === "zh" ? "zh-CN" : "en"}
      onClick={() => setLocale(other)}
      title={t("nav.language.label")}
      data-testid="language"
    >
      {t("nav.language")}
    </button>
  );
}

export function ThemeButton(): ReactNode {
  const { t } = useI18n();
  const theme = useTheme();
  const label = t(`nav.theme.${theme}`);
  return (
    <button type="button" className="quiet icon" onClick={nextTheme} aria-label={label} title={label} data-testid="theme">
      <svg width="16" height="16" viewBox="0 0 16 16" aria-hidden="true">
        <circle cx="8" cy="8" r="6" fill={theme === "dark" ? "currentColor" : "none"} stroke="currentColor" strokeWidth="1.4" />
        {theme === "auto" && <path d="M8 2a6 6 0 0 1 0 12Z" fill="currentColor" />}
      </svg>
    </button>
  );
}

/** A compass rose crossed by a rhumb line. */
export function Mark({ size = 24 }: { size?: number }): ReactNode {
  return (
    <svg width={size} height={size} viewBox="0 0 32 32" aria-hidden="true" className="mark">
      <circle cx="16" cy="16" r="14.5" fill="none" stroke="currentColor" strokeWidth="1.2" />
      <path d="M16 3.5l2.6 9.9 9.9 2.6-9.9 2.6-2.6 9.9-2.6-9.9L3.5 16l9.9-2.6z" fill="currentColor" />
      <path d="M5.7 26.3L26.3 5.7" className="mark-line" />
    </svg>
  );
}
