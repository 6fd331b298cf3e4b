"""Words for the names of made-up columns, disjoint between splits.

There are many for training, so that a policy learns to handle unknown words.
"""

from __future__ import annotations


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


NUMBERS: dict[str, tuple[str, ...]] = {
    "train": _words("""
        age size rooms width height depth speed power weight length income visits clicks pages
        hours days stock demand wind rain salt sugar acid iron heat noise light altitude balance
        battery bedrooms bounce branches brightness bulbs cabins cables calories candles carbon
        cargo chairs charge cholesterol clay colder copper cores crates credits crew current
        curve cycles dampness decibels deposit detours dew discount distance doors dose doubt
        downloads drift drops dust edges effort eggs energy engines error events exits exports
        fans fat fences fever fines flights flow fog force frames friction frost fuse gaps gates
        gears glare grain gravity grip growth guests gusts hail herds hills holes horns hunger
        ink inches injuries islands jumps keys kilos knots labor lag lamps laps layers leaks
        leaves lift liters loans loops losses magnets meals members mileage minutes moisture
        moons mud muscle needles nodes offers oil orbits oxygen packets panels peaks pedals
        people pets pipes pixels plugs poles pollen ports posts pressure prints profit pumps
        queue quota rays refunds repairs replies resin rings ripeness risers rotation rows rust
        sand scans screws seats seeds servers shadow shelves ships shocks skips slope smoke
        snacks spins sponge springs stairs steam steps stress strokes sunlight surface sweat
        swell tables tanks taps tariff taxes tension threads tides tilt timber tons torque
        towers traffic trees tremor turns upload valves vapor vessels vibration voltage votes
        wages walks waste waves wheels wires workers yards yeast
    """),
    "validation": _words("""
        acreage benches bushels canals dampers echoes fathoms gallons hectares ingots joints
        kernels ladders mortar nutrients ounces pebbles quarries
    """),
    "eval": _words("""
        antennas barrels chimneys domes embers furrows glaciers hinges icicles jets kettles
        lanterns meadows nozzles orchards paddles quills reefs
    """),
}
"""Names of number columns, by split."""
TEXTS: dict[str, tuple[str, ...]] = {
    "train": _words("""
        color city brand shape model region team airline animal artist author bank bread carrier
        category cereal channel climate coast country county course crust currency dealer device
        diet district dough driver engine fabric farm festival flavor flower fruit genre grape
        guild harbor hobby hotel language leather medium mineral nation origin outlet owner
        pattern planet platform player pocket polish province quarter recipe resort river room
        sauce school season sector seller series service soap sport station street studio
        supplier suburb surgeon symbol theme tool vendor vehicle village weather wood zone
    """),
    "validation": _words("""
        abbey bakery canyon diocese emblem foundry
    """),
    "eval": _words("""
        atrium brewery citadel dialect estate fjord
    """),
}
"""Names of text columns, by split."""
