/**
 * xterm 6 writes its colours and sizes into `<style>` elements, which the page's policy refuses. Inert elements
 * replace them, and their text goes into a constructed sheet, which the policy allows. Nothing else on the page makes a style
 * element.
 */
export function withoutStyleElements(): void {
  const make = document.createElement.bind(document);
  const create = (name: string, options?: ElementCreationOptions): HTMLElement => {
    if (name !== "style") return make(name, options);
    const element = make("x-style");
    const sheet = new CSSStyleSheet();
    document.adoptedStyleSheets.push(sheet);
    Object.defineProperty(element, "textContent", { set: (css: string) => sheet.replaceSync(css) });
    const remove = element.remove.bind(element);
    element.remove = () => {
      document.adoptedStyleSheets = document.adoptedStyleSheets.filter((other) => other !== sheet);
      remove();
    };
    return element;
  };
  Object.assign(document, { createElement: create });
}
