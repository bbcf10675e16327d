// A heat map as the server sends it: a length, a JSON object of that length, then one or three planes of floats.

export interface Heat {
  rows: number; // of the slice
  columns: number;
  height: number; // of what is drawn
  width: number;
  mean: Float32Array;
  least: Float32Array;
  greatest: Float32Array;
  whole: boolean; // a cell is a single value
}

export function read(buffer: ArrayBuffer): Heat {
  const length = new DataView(buffer).getUint32(0, true);
  const head = JSON.parse(new TextDecoder().decode(new Uint8Array(buffer, 4, length))) as Pick<
    Heat,
    "rows" | "columns" | "height" | "width"
  >;
  const size = head.height * head.width;
  const planes = size === 0 ? 1 : (buffer.byteLength - 4 - length) / 4 / size;
  const plane = (index: number): Float32Array => new Float32Array(buffer, 4 + length + index * size * 4, size);
  const mean = plane(0);
  return {
    ...head,
    mean,
    least: planes === 3 ? plane(1) : mean,
    greatest: planes === 3 ? plane(2) : mean,
    whole: planes !== 3,
  };
}

const mix = (a: readonly number[], b: readonly number[], share: number): number[] =>
  a.map((one, index) => Math.round(one + (b[index]! - one) * share));

const MIDDLE = { light: [246, 246, 244], dark: [34, 38, 44] };
const LOW = { light: [26, 82, 168], dark: [110, 170, 255] };
const HIGH = { light: [196, 94, 10], dark: [255, 160, 80] };
const NAN = [214, 24, 34];
const INF = [150, 30, 190];

/** Colours of 256 levels from the lowest to the highest value. Zero is neutral when there are values on both sides. */
function colours(theme: "light" | "dark"): Uint8ClampedArray {
  const table = new Uint8ClampedArray(256 * 3);
  for (let level = 0; level < 256; level++) {
    const share = (level - 127.5) / 127.5;
    const end = share < 0 ? LOW[theme] : HIGH[theme];
    table.set(mix(MIDDLE[theme], end, Math.abs(share)), level * 3);
  }
  return table;
}

/** The least and greatest finite value; [0, 0] when there is none. */
export function extent(values: Float32Array): [number, number] {
  let low = Infinity;
  let high = -Infinity;
  for (const one of values) {
    if (one < low && one !== -Infinity) low = one;
    if (one > high && one !== Infinity) high = one;
  }
  return low > high ? [0, 0] : [low, high];
}

export function paint(of: Heat, theme: "light" | "dark"): ImageData {
  const image = new ImageData(Math.max(1, of.width), Math.max(1, of.height));
  const table = colours(theme);
  const [low, high] = extent(of.mean);
  const most = Math.max(Math.abs(low), Math.abs(high)) || 1;
  const data = image.data;
  for (let i = 0; i < of.mean.length; i++) {
    const one = of.mean[i]!;
    const o = i * 4;
    if (one - one !== 0) {
      const colour = one !== one ? NAN : INF;
      data[o] = colour[0]!;
      data[o + 1] = colour[1]!;
      data[o + 2] = colour[2]!;
    } else {
      const level = Math.round((one / most) * 127.5 + 127.5) * 3;
      data[o] = table[level]!;
      data[o + 1] = table[level + 1]!;
      data[o + 2] = table[level + 2]!;
    }
    data[o + 3] = 255;
  }
  return image;
}
