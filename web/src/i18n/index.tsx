import { createContext, type ReactNode, useContext, useEffect, useMemo, useState } from "react";

import { createFormat, type Format } from "../format";
import { en, type Key } from "./en";
import { translate, wordOf } from "./translate";
import { zh } from "./zh";

export type { Key } from "./en";
export type Locale = "en" | "zh";

const DICTIONARIES = { en, zh };
const TAGS: Record<Locale, string> = { en: "en", zh: "zh-CN" };
const KEPT = "rhumb.locale";

export interface I18n {
  locale: Locale;
  setLocale: (locale: Locale) => void;
  t: (key: Key, values?: Record<string, string | number>) => string;
  /** A word of the server (a state, a phase, a reason) in the user's language; unknown ones stay as they are. */
  word: (kind: string, value: string) => string;
  format: Format;
}

const I18nContext = createContext<I18n | null>(null);

export function useI18n(): I18n {
  const value = useContext(I18nContext);
  if (!value) throw new Error("useI18n needs an I18nProvider above it");
  return value;
}

/** The kept choice, else the first language of the browser that there is a dictionary for. */
export function firstLocale(kept: string | null, preferred: readonly string[]): Locale {
  if (kept === "en" || kept === "zh") return kept;
  for (const tag of preferred) {
    if (/^zh\b/i.test(tag)) return "zh";
    if (/^en\b/i.test(tag)) return "en";
  }
  return "en";
}

export function I18nProvider({ children }: { children: ReactNode }): ReactNode {
  const [locale, setLocale] = useState<Locale>(() => firstLocale(localStorage.getItem(KEPT), navigator.languages));

  useEffect(() => {
    document.documentElement.lang = TAGS[locale];
    localStorage.setItem(KEPT, locale);
  }, [locale]);

  const value = useMemo<I18n>(() => {
    const dictionary = DICTIONARIES[locale];
    return {
      locale,
      setLocale,
      t: (key, values) => translate(dictionary[key], values),
      word: (kind, text) => wordOf(dictionary, kind, text),
      format: createFormat(TAGS[locale]),
    };
  }, [locale]);

  return <I18nContext value={value}>{children}</I18nContext>;
}
