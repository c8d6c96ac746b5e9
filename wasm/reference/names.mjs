// A plugin of TypeDoc: in comments of all entries, the names of the main one are known. TypeScript finds no names in
// `@throws`, and TypeDoc looks for them in the entry alone that it describes.

/** @param {import('typedoc').Application} app */
export function load(app) {
  app.converter.addUnknownSymbolResolver((reference, from, link) => {
    // It is asked for types, too, and has none.
    if (!link) return undefined;
    const path = reference.symbolReference?.path?.map(({ path }) => path) ?? [];
    const target = from.project.getChildByName(['tallymesh', ...path]);
    return path.length > 0 && target ? { target } : undefined;
  });
}
