/** Fills `{name}` in a text; what no value is given for stays visible, so that the fault is seen. */
export function translate(text: string, values: Record<string, string | number> = {}): string {
  return text.replace(/\{(\w+)\}/g, (hole, name: string) => (name in values ? String(values[name]) : hole));
}

export function wordOf(dictionary: Readonly<Record<string, string>>, kind: string, value: string): string {
  return dictionary[`${kind}.${value}`] ?? value;
}
