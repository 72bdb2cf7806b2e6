// Colours of cells. Those of the page itself are in its style sheet.

const RAMP = [[68, 1, 84], [71, 44, 122], [59, 81, 139], [44, 113, 142], [33, 144, 141], [39, 173, 129], [92, 200, 99],
  [170, 220, 50], [253, 231, 37]];
const TWO_WAYS_LIGHT = [[5, 80, 174], [107, 165, 222], [244, 244, 244], [236, 150, 90], [166, 54, 3]];
const TWO_WAYS_DARK = [[121, 192, 255], [38, 96, 158], [44, 48, 54], [166, 82, 24], [255, 176, 107]];

const media = { dark: matchMedia('(prefers-color-scheme: dark)'), print: matchMedia('print') };

function isDark() {
  return media.dark.matches && !media.print.matches;
}

function pageColor(name) {
  const hex = getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  return [1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16));
}

function along(stops, share) {
  const place = Math.min(Math.max(share, 0), 1) * (stops.length - 1);
  const at = Math.min(Math.floor(place), stops.length - 2);
  return stops[at].map((from, i) => Math.round(from + (stops[at + 1][i] - from) * (place - at)));
}

function packed([red, green, blue]) {
  return (255 << 24 | blue << 16 | green << 8 | red) >>> 0;
}

// 256 colours as pixels, and the same as an update looks that the dtype cannot tell apart.
function colorTable(stops) {
  const none = pageColor('--none');
  const table = { plain: new Uint32Array(256), grey: new Uint32Array(256), none: packed(none), ink: packed(pageColor('--dim')),
    bad: packed(isDark() ? [255, 70, 70] : [220, 20, 30]) };
  for (let i = 0; i < 256; ++i) {
    const color = along(stops, i / 255);
    const light = Math.round((color[0] * 3 + color[1] * 6 + color[2]) / 10);
    table.plain[i] = packed(color);
    table.grey[i] = packed(color.map((part) => Math.round(light * 0.75 + part * 0.25)));
  }
  return table;
}

function mapColors(metric) {
  return colorTable(metric.twoWays ? (isDark() ? TWO_WAYS_DARK : TWO_WAYS_LIGHT) : RAMP);
}
