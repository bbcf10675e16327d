// The drawing as a picture: an SVG file that stands alone, or a PNG of it.

import { say } from "../../state";

const KEPT = ["fill", "fill-opacity", "stroke", "stroke-width", "stroke-dasharray", "font-size", "font-family", "font-weight", "text-anchor"];
const MARGIN = 16;

/** A copy of the whole drawing, not only of what is in sight, with its colours written into it. */
function copy(width: number, height: number): SVGSVGElement | null {
  const sheet = document.querySelector<SVGSVGElement>("svg.sheet");
  if (!sheet) return null;
  const made = sheet.cloneNode(true) as SVGSVGElement;
  const from = sheet.querySelectorAll("*");
  const to = made.querySelectorAll("*");
  to.forEach((element, index) => {
    const style = getComputedStyle(from[index]!);
    for (const name of KEPT) {
      const value = style.getPropertyValue(name);
      if (value) element.setAttribute(name, value);
    }
    for (const name of ["class", "tabindex", "role", "aria-label", "aria-pressed", "aria-expanded"])
      element.removeAttribute(name);
  });
  const [w, h] = [Math.ceil(width + 2 * MARGIN), Math.ceil(height + 2 * MARGIN)];
  made.removeAttribute("class");
  made.setAttribute("xmlns", "http://www.w3.org/2000/svg");
  made.setAttribute("viewBox", `0 0 ${w} ${h}`);
  made.setAttribute("width", String(w));
  made.setAttribute("height", String(h));
  const scene = [...made.children].find((one) => one.tagName === "g");
  scene?.setAttribute("transform", `translate(${MARGIN} ${MARGIN})`);
  const ground = document.createElementNS("http://www.w3.org/2000/svg", "rect");
  ground.setAttribute("width", "100%");
  ground.setAttribute("height", "100%");
  ground.setAttribute("fill", getComputedStyle(sheet).backgroundColor);
  made.insertBefore(ground, made.firstChild);
  return made;
}

function save(url: string, name: string): void {
  const link = document.createElement("a");
  link.href = url;
  link.download = name;
  link.click();
}

export async function exportPicture(kind: "svg" | "png", name: string, width: number, height: number): Promise<void> {
  const made = copy(width, height);
  if (!made) return;
  const text = new XMLSerializer().serializeToString(made);
  const file = name.replace(/[^\w.-]+/g, "_").slice(0, 80);
  if (kind === "svg") {
    const url = URL.createObjectURL(new Blob([text], { type: "image/svg+xml" }));
    save(url, `${file}.svg`);
    setTimeout(() => URL.revokeObjectURL(url), 10_000);
    return;
  }
  const picture = new Image();
  picture.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(text)}`;
  try {
    await picture.decode();
  } catch {
    say("The picture cannot be made here; save it as SVG.", true);
    return;
  }
  const scale = Math.min(2, 8000 / Math.max(picture.width, picture.height));
  const canvas = document.createElement("canvas");
  canvas.width = Math.round(picture.width * scale);
  canvas.height = Math.round(picture.height * scale);
  canvas.getContext("2d")!.drawImage(picture, 0, 0, canvas.width, canvas.height);
  save(canvas.toDataURL("image/png"), `${file}.png`);
}
