// Pixels are drawn with the button held down or with a finger, and left with one press of Tab; arrow keys move inside.
const side = 7, moves = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -side, ArrowDown: side };
const boxes = () => [...document.querySelectorAll('#fw-draw input')];
const boxAt = target => target?.closest?.('#fw-draw label')?.querySelector('input');
let ink = null, last = null, dragged = false;
const draw = box => { if (box.checked !== ink) box.click(); };

document.addEventListener('pointerdown', event => {
  last = boxAt(event.target);
  ink = last ? !last.checked : null;
  dragged = false;
});
document.addEventListener('pointermove', event => {
  const box = ink === null ? null : boxAt(document.elementFromPoint(event.clientX, event.clientY));
  if (!box || box === last) return;
  draw(last);
  draw(box);
  [last, dragged] = [box, true];
});
for (const end of ['pointerup', 'pointercancel']) document.addEventListener(end, () => { ink = null; });
// A line that ends where it began would otherwise toggle its first pixel once more.
document.addEventListener('click', event => {
  if (!dragged || !event.isTrusted || !boxAt(event.target)) return;
  event.preventDefault();
  event.stopPropagation();
}, true);
document.addEventListener('keydown', event => {
  const all = boxes(), place = all.indexOf(event.target), next = place + moves[event.key];
  if (place < 0 || !(event.key in moves)) return;
  event.preventDefault();
  if (Math.abs(moves[event.key]) === side || Math.floor(next / side) === Math.floor(place / side)) all[next]?.focus();
});
document.addEventListener('focusin', event => {
  const all = boxes();
  if (all.includes(event.target)) all.forEach(box => { box.tabIndex = box === event.target ? 0 : -1; });
});
