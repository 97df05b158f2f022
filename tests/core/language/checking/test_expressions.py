"""What every expression's type is, and what is said where there is none.

Types are pushed inwards where the language says so and agreed on elsewhere; a literal takes the scale of its place.
"""

import pytest

from tests.core.language.check_helpers import (
    expand_fields,
    get_type_text,
    require_expression_error,
    split_table,
)

TYPES = """
    1                                               Int
    -1                                              Int
    1.50                                            Dec(2)
    0.000000000000000001                            Dec(18)
    00000000000000000000000000000000000000001       Int
    "a"                                             Text
    true                                            Bool
    date("2024-02-29")                              Date
    qty(1.5, kWh)                                   Qty(kWh)
    @int + 1                                        Int
    @int + @dec2                                    Dec(2)
    @dec2 + @int                                    Dec(2)
    @dec2 + 1.5                                     Dec(2)
    @dec2 + 1.500                                   Dec(2)
    1 + 2.25                                        Dec(2)
    1 + 2                                           Int
    @int + 1.5                                      Dec(1)
    @int + 1.5 - 2.25                               Dec(2)
    1.5 + 2.25 + @dec6                              Dec(6)
    1.5 + @int + @dec2                              Dec(2)
    @int - @int + @dec2 - @int                      Dec(2)
    @kwh - @kwh                                     Qty(kWh)
    @int * @int                                     Int
    @int / @int                                     Dec(18)
    @dec2 / @int                                    Dec(18)
    1 / 3                                           Dec(18)
    @dec6 * 1.5                                     Dec(7)
    @dec6 * 2                                       Dec(6)
    @int * @dec2                                    Dec(2)
    @dec18 * @dec18                                 Dec(36)
    @dec2 * @kwh                                    Qty(kWh)
    @kwh * @dec2                                    Qty(kWh)
    @kwh * 2                                        Qty(kWh)
    @int * @kwh                                     Qty(kWh)
    @kwh / 2                                        Qty(kWh)
    @kwh / @dec2                                    Qty(kWh)
    @kwh / @kwh                                     Dec(18)
    qty(5, gCO2e) / @kwh                            Qty(gCO2e_per_kWh)
    qty(5, gCO2e) / qty(1, gCO2e_per_kWh)           Qty(kWh)
    qty(1, gCO2e_per_kWh) * @kwh                    Qty(gCO2e)
    @kwh * qty(1, gCO2e_per_kWh)                    Qty(gCO2e)
    qty(3, V) * qty(2, Ah)                          Qty(Wh)
    qty(3, V) * qty(2, A)                           Qty(W)
    @kwh / @kwh * @kwh                              Qty(kWh)
    -@int                                           Int
    -@dec2                                          Dec(2)
    -@kwh                                           Qty(kWh)
    -(-@int)                                        Int
    !@yes                                           Bool
    !(!@yes)                                        Bool
    @yes && @yes || !@yes                           Bool
    @dec2 > 0.005                                   Bool
    @dec2 == 1                                      Bool
    1 < @dec6                                       Bool
    @dec2 == @dec6                                  Bool
    1.5 < 2                                         Bool
    1 < 2                                           Bool
    @text < "b"                                     Bool
    @day >= date("2027-02-18")                      Bool
    @kwh <= qty(75, kWh)                            Bool
    @yes == false                                   Bool
    @maybe == none                                  Bool
    none != @maybe                                  Bool
    @ints == []                                     Bool
    [] == @ints                                     Bool
    @pair == @pair                                  Bool
    [1, 2.25]                                       List(Dec(2))
    [1, 2]                                          List(Int)
    [1, @dec6, 2.5]                                 List(Dec(6))
    [none, @maybe, none]                            List(Opt(Int))
    [[], @ints]                                     List(List(Int))
    { b: 1, a: "x" }                                Record(a: Text, b: Int)
    if (@yes) then 1 else 2.5                       Dec(1)
    if (@yes) then none else @maybe                 Opt(Int)
    if (@yes) then 1 else if (@yes) then @dec6 else 2.5   Dec(6)
    let x = 1; x + 1                                Int
    let x = let y = 1; y; x                         Int
    assert(@yes, "E", "e"); 1.5                     Dec(1)
    some(1)                                         Opt(Int)
    [some(1), none]                                 List(Opt(Int))
    isSome(@maybe)                                  Bool
    unwrapOr(@maybe, 1)                             Int
    unwrapOr(@maybe_dec, 1)                         Dec(2)
    unwrapOr(@maybe_dec, 1.5)                       Dec(2)
    requireSome(@maybe, "E", "e")                   Int
    count(@ints)                                    Int
    concat("a")                                     Text
    concat("a", @text, "b")                         Text
    amount(@kwh)                                    Dec(18)
    toDec(2, @int)                                  Dec(2)
    toDec(2, 1.555)                                 Dec(2)
    toDec(0, @dec18 * @dec18)                       Dec(0)
    toDec(18, 1)                                    Dec(18)
    toQty("kWh", @dec6)                             Qty(kWh)
    toQty("kWh", 1.5)                               Qty(kWh)
    convert("Wh", "kWh", @wh)                       Qty(kWh)
    convert("kWh", "kWh", @kwh)                     Qty(kWh)
    sumDec(2, @decs)                                Dec(2)
    sumDec(6, @decs)                                Dec(6)
    sumQty("kWh", @kwhs)                            Qty(kWh)
    getFact("Battery", "k")                         Opt(Battery@1)
    getFact("Battery@1", @text)                     Opt(Battery@1)
    getFactsByPrefix("Component", "c:")             List(Component@1)
    recordGet(requireSome(getFact("Battery", "k"), "E", "e"), "mass_kg")     Opt(Dec(6))
    recordGet(@pair, "a")                           Opt(Int)
    recordGet(@pair, "b")                           Opt(Text)
    map(@ints, fn(x) => x + 1)                      List(Int)
    map(@ints, fn(x) => { n: x })                   List(Record(n: Int))
    filter(@ints, fn(x) => x > 1)                   List(Int)
    fold(@ints, 0, fn(sum, x) => sum + x)           Int
    fold(@decs, 0.00, fn(sum, x) => sum + x)        Dec(2)
    fold(@ints, "", fn(all, x) => concat(all, "x"))   Text
    map(getFactsByPrefix("Component", ""), fn(c) => recordGet(c, "mass_g"))  List(Opt(Dec(6)))
    productSku()                                    Text
    productName()                                   Text
    issuedOn()                                      Date
    [getFact("Battery", "a"), getFact("Battery", "b")]                       List(Opt(Battery@1))
    count(getFactsByPrefix("Battery", ""))          Int
    map(@ints, fn(x) => map(@ints, fn(y) => x + y))   List(List(Int))
    concat("a", "b",)                               Text
"""


@pytest.mark.parametrize(("text", "kind"), split_table(TYPES))
def test_an_expression_has_this_type(text: str, kind: str) -> None:
    assert get_type_text(expand_fields(text)) == kind


# expression, kind, what the help line holds (- for none at all, * for anything)
MISTAKES = """
    «1000000000000000000000000000000000000»         number-too-large        -
    «1.0000000000000000000»                         scale-too-large         -
    qty(«1.0000000000000000000», kWh)               scale-too-large         -
    date(«"2023-02-29"»)                            bad-date                like 2027-02-18
    date(«"2023-2-9"»)                              bad-date                like 2027-02-18
    date(«"0000-01-01"»)                            bad-date                *
    qty(1, «kwh»)                                   unknown-unit            did you mean `kWh`?
    qty(1, «parsec»)                                unknown-unit            the units are mg, g
    «none»                                          type-not-known          *
    «[]»                                            type-not-known          *
    [«none», none]                                  type-not-known          *
    [«none», 1]                                     wrong-type              *
    «none» == none                                  type-not-known          *
    1 == «none»                                     wrong-type              *
    isSome(«none»)                                  type-not-known          *
    @dec2 «+» @dec6                                 operands-disagree       `toDec(6, field("dec2"))`
    @dec6 «+» @dec2                                 operands-disagree       `toDec(6, field("dec2"))`
    @dec2 + «1.555»                                 literal-does-not-fit    `toDec(2, 1.555)`
    @kwh «+» @wh                                    unit-mismatch           `convert("Wh", "kWh", field("wh"))`
    @kwh «-» @kg                                    unit-mismatch           cannot be converted
    @kwh «+» 1                                      operands-disagree       `qty(1, kWh)`
    @kwh «+» @dec2                                  operands-disagree       `toQty("kWh", field("dec2"))`
    «@text» + 1                                     wrong-type              concat
    1 - «@day»                                      wrong-type              dates can be compared
    «@maybe» + 1                                    wrong-type              `unwrapOr(field("maybe"), …)`
    «@yes» * 2                                      wrong-type              -
    1 «/» @kwh                                      operands-disagree       `amount(field("kwh"))`
    @kwh «*» @kwh                                   unit-mismatch           `amount(field("kwh"))`
    @wh «/» @kwh                                    unit-mismatch           `convert("kWh", "Wh", field("kwh"))`
    qty(1, gCO2e_per_kWh) «*» @wh                   unit-mismatch           `convert("Wh", "kWh", field("wh"))`
    qty(1, gCO2e) «/» @wh                           unit-mismatch           `convert("Wh", "kWh", field("wh"))`
    @dec18 * @dec18 «*» 1.5                         scale-too-large         toDec
    -«@text»                                        wrong-type              -
    -«@maybe»                                       wrong-type              unwrapOr
    !«@int»                                         wrong-type              -
    !«@maybe»                                       wrong-type              isSome
    «@int» && @yes                                  wrong-type              -
    @yes || «@text»                                 wrong-type              -
    @int «>» @dec2                                  int-for-dec             `toDec(2, field("int"))`
    @int «>» 1.5                                    int-for-dec             `toDec(1, field("int"))`
    1.5 «==» @int                                   int-for-dec             `toDec(1, field("int"))`
    @dec2 «==» @text                                operands-disagree       -
    @day «>=» "2027-02-18"                          operands-disagree       `date("2027-02-18")`
    @maybe «==» 1                                   operands-disagree       unwrapOr
    @maybe «==» some(1.5)                           operands-disagree       -
    @kwh «<» @wh                                    unit-mismatch           convert
    «@yes» < false                                  not-comparable          ==
    «@maybe» < @maybe                               not-comparable          unwrapOr
    «@maybe» < none                                 not-comparable          unwrapOr
    «@ints» < @ints                                 not-comparable          ==
    «@pair» >= @pair                                not-comparable          ==
    @ints «==» @decs                                operands-disagree       -
    «getFact("Battery", "a")» == getFact("Battery", "b")     not-comparable   recordGet
    «getFact("Battery", "a")» == none               not-comparable          recordGet
    [«1», "a"]                                      wrong-type              -
    [@int, «@dec2»]                                 wrong-type              *
    [@dec2, «@int»]                                 int-for-dec             `toDec(2, field("int"))`
    [@dec2, «1.555»]                                literal-does-not-fit    *
    [@int, «1.5»]                                   wrong-type              *
    if («@int») then 1 else 2                       wrong-type              -
    if (@yes) then @int else «@dec2»                wrong-type              *
    if (@yes) then @dec2 else «@int»                int-for-dec             `toDec(2, field("int"))`
    if (@yes) then «none» else 1                    wrong-type              *
    { a: 1, «a»: 2 }                                duplicate-member        -
    { a: «getFact("Battery", "k")» }                fact-record-misplaced   recordGet
    assert(«@int», "E", "e"); 1                     wrong-type              -
    «some(@maybe)»                                  nested-option           field("maybe")
    isSome(«@int»)                                  wrong-type              needs no unwrapping
    unwrapOr(«@int», 1)                             wrong-type              *
    unwrapOr(@maybe, «1.5»)                         wrong-type              *
    unwrapOr(@maybe_dec, «@int»)                    int-for-dec             `toDec(2, field("int"))`
    requireSome(@maybe, «@text», "e")               literal-needed          -
    requireSome(@maybe, "E", «1»)                   literal-needed          -
    count(«@int»)                                   wrong-type              -
    count(«[]»)                                     type-not-known          *
    concat("a", «@int»)                             wrong-type              no conversion to Text
    concat("a", «@maybe_text»)                      wrong-type              unwrapOr
    «concat()»                                      wrong-argument-count    `concat(text, …)`
    «count(@ints, @ints)»                           wrong-argument-count    `count(list)`
    «productSku(1)»                                 wrong-argument-count    `productSku()`
    «cuont»(@ints)                                  unknown-function        did you mean `count(…)`?
    «zzzzzzzz»(@ints)                               unknown-function        -
    amount(«@dec2»)                                 wrong-type              already a number
    toDec(2, «@kwh»)                                wrong-type              `toDec(2, amount(field("kwh")))`
    toDec(2, «@maybe»)                              wrong-type              unwrapOr
    toDec(2, «"1.5"»)                               wrong-type              -
    toDec(«19», 1)                                  scale-too-large         -
    toDec(«@int», 1)                                literal-needed          from 0 to 18
    toDec(«-1», 1)                                  literal-needed          from 0 to 18
    toDec(«1.5», 1)                                 literal-needed          from 0 to 18
    toQty(«"kwh"», 1)                               unknown-unit            did you mean `kWh`?
    toQty(«kWh», 1)                                 literal-needed          `"kWh"`
    toQty("kWh", «@kwh»)                            wrong-type              already has this unit
    toQty("kWh", «@wh»)                             wrong-type              convert
    toQty("kWh", «@dec18 * @dec2»)                  scale-too-large         `toDec(18, field("dec18") * field("dec2"))`
    convert("Wh", "kWh", «@kwh»)                    unit-mismatch           convert
    convert("Wh", "kWh", «@dec2»)                   wrong-type              `toQty("Wh", field("dec2"))`
    «convert("Wh", "kg", @wh)»                      no-conversion           `kWh`, `MWh`
    convert("Wh", «"kwh"», @wh)                     unknown-unit            did you mean `kWh`?
    sumDec(«@ints», @decs)                          literal-needed          *
    sumDec(1, «@decs»)                              wrong-type              `toDec(1, sumDec(2, field("decs")))`
    sumDec(2, «@ints»)                              wrong-type              `map(field("ints"), fn(x) => toDec(2, x))`
    sumDec(2, «@dec2»)                              wrong-type              -
    sumDec(2, «@maybes»)                            wrong-type              unwrapOr
    sumQty("Wh", «@kwhs»)                           unit-mismatch           convert("kWh", "Wh", x)
    sumQty("kWh", «@decs»)                          wrong-type              toQty("kWh", x)
    getFact(«"Batery"», "k")                        unknown-fact            did you mean `Battery`?
    getFact(«"Battery@2"», "k")                     unknown-fact            `"Battery@1"`
    getFact(«"Battery@01"», "k")                    unknown-fact            *
    getFact(«"Blinding"», "k")                      unknown-fact            did you mean `Finding`
    getFact(«"Provenance"», "k")                    unknown-fact            the fact types are
    getFact(«@text», "k")                           literal-needed          -
    getFact("Battery", «@int»)                      wrong-type              *
    recordGet(«getFact("Battery", "k")», "sku")     wrong-type              requireSome
    recordGet(«@ints», "sku")                       wrong-type              fn(x) => recordGet(x, "member")
    recordGet(@pair, «"c"»)                         unknown-member          *
    recordGet(requireSome(getFact("Battery", "k"), "E", "e"), «"mas_kg"»)    unknown-member    did you mean `mass_kg`?
    recordGet(@pair, «@text»)                       literal-needed          -
    mapGet(«@pair», "a")                            wrong-type              recordGet
    map(«@int», fn(x) => x)                         wrong-type              -
    map(@ints, «@int»)                              wrong-lambda            `fn(x) => …`
    map(@ints, «fn(x, y) => x»)                     wrong-lambda            `fn(x) => …`
    fold(@ints, 0, «fn(x) => x»)                    wrong-lambda            `fn(acc, x) => …`
    count(«fn(x) => x»)                             wrong-lambda            `count(list)`
    filter(@ints, fn(x) => «x»)                     wrong-type              -
    filter(@maybes, fn(x) => «x»)                   wrong-type              isSome
    fold(@decs, 0, fn(sum, x) => «sum + x»)         wrong-type              `toDec(2, 0)`
    fold(@decs, @int, fn(sum, x) => «sum + x»)      wrong-type              *
    fold(@ints, «none», fn(sum, x) => some(x))      type-not-known          *
    «nothing_here»                                  unknown-variable        -
    «int»                                           unknown-variable        `field("int")`
    «productSku»                                    unknown-variable        `productSku(…)`
    let abc = 1; «abd» + abc                        unknown-variable        did you mean `abc`?
    let x = 1; let «x» = 2; x                       shadowed-name           another name
    let x = 1; map(@ints, fn(«x») => x)             shadowed-name           another name
    fold(@ints, 0, fn(x, «x») => x)                 shadowed-name           another name
    field(«"dec_2"»)                                unknown-field           did you mean `dec2`?
    «emitCompliance("C", "PASS", "m")»              emit-outside-rule       *
"""


@pytest.mark.parametrize(("text", "kind", "hint"), split_table(MISTAKES))
def test_a_mistake_is_named_where_it_is_with_a_way_out(text: str, kind: str, hint: str) -> None:
    error = require_expression_error(expand_fields(text))

    assert error.kind == kind, error.message
    if hint == "-":
        assert error.help is None
    else:
        assert error.help is not None
        assert hint == "*" or hint in error.help
