"""The words that `swaps` knows: who is the counterpart of whom, and what may follow him, her and his."""


def _set(words: str) -> frozenset[str]:
    return frozenset(words.split())


_BOTH_WAYS = """
    he she, himself herself, him her, mr ms, man woman, men women, boy girl, boys girls, male female, males females,
    guy gal, guys gals, lad lass, lads lasses, gentleman lady, gentlemen ladies, sir madam, father mother,
    fathers mothers, dad mom, dads moms, daddy mommy, daddies mommies, papa mama, papas mamas, brother sister,
    brothers sisters, son daughter, sons daughters, husband wife, husbands wives, uncle aunt, uncles aunts,
    nephew niece, nephews nieces, grandfather grandmother, grandfathers grandmothers, grandpa grandma,
    grandpas grandmas, grandson granddaughter, grandsons granddaughters, stepfather stepmother,
    stepfathers stepmothers, stepson stepdaughter, stepsons stepdaughters, stepbrother stepsister,
    stepbrothers stepsisters, godfather godmother, godfathers godmothers, godson goddaughter, godsons goddaughters,
    boyfriend girlfriend, boyfriends girlfriends, groom bride, grooms brides, fiancé fiancée, fiancés fiancées,
    fiance fiancee, fiances fiancees, widower widow, widowers widows, patriarch matriarch, patriarchs matriarchs,
    duke duchess, dukes duchesses, emperor empress,
    emperors empresses, baron baroness, barons baronesses, heir heiress, heirs heiresses, actor actress,
    actors actresses, waiter waitress, waiters waitresses, steward stewardess, stewards stewardesses, hero heroine,
    heroes heroines, landlord landlady, landlords landladies, headmaster headmistress, headmasters headmistresses,
    masseur masseuse, masseurs masseuses, monk nun, monks nuns, wizard witch, wizards witches, sorcerer sorceress,
    sorcerers sorceresses, priest priestess, priests priestesses, schoolboy schoolgirl,
    schoolboys schoolgirls, cowboy cowgirl, cowboys cowgirls, airman airwoman, airmen airwomen,
    anchorman anchorwoman, anchormen anchorwomen, businessman businesswoman, businessmen businesswomen,
    cameraman camerawoman, cameramen camerawomen, chairman chairwoman, chairmen chairwomen,
    congressman congresswoman, congressmen congresswomen, councilman councilwoman, councilmen councilwomen,
    countryman countrywoman, countrymen countrywomen, craftsman craftswoman, craftsmen craftswomen,
    fireman firewoman, firemen firewomen, fisherman fisherwoman, fishermen fisherwomen, nobleman noblewoman,
    noblemen noblewomen, policeman policewoman, policemen policewomen, salesman saleswoman, salesmen saleswomen,
    spokesman spokeswoman, spokesmen spokeswomen, sportsman sportswoman, sportsmen sportswomen,
    statesman stateswoman, statesmen stateswomen, stuntman stuntwoman, stuntmen stuntwomen, boyhood girlhood,
    manhood womanhood, fatherhood motherhood, brotherhood sisterhood, boyish girlish, manly womanly,
    fatherly motherly, brotherly sisterly, masculine feminine, masculinity femininity, paternal maternal,
    paternity maternity
"""
_NAMES = """
    richard mary, bob maria, daniel elizabeth, jason sarah, ryan anna, kevin jane, anthony marie, matthew rachel,
    carl emma, gary alice, fred kate, sean ann, nicholas claire, jacob emily, donald helen, oliver susan,
    benjamin julia, larry barbara, neil catherine, justin amy, dennis laura, ted lucy, steven lisa, nathan sara,
    raymond julie, kyle jennifer, dylan olivia, felix jessica, kenneth hannah, ronald linda, joshua martha,
    gerald rebecca, jeffrey patricia, timothy natalie
"""
"""Each one token of the uncased vocabulary of BERT, which is sorted by frequency, with a partner whose rank differs by
6 % at the most; none that is a common word as well, or is borne by both."""

_ONE_WAY = {
    "mrs": "mr",
    "ma'am": "sir",
    "mum": "dad",
    "mums": "dads",
    "bridegroom": "bride",
    "bridegrooms": "brides",
    "hostess": "host",
    "hostesses": "hosts",
    "countess": "count",
    "countesses": "counts",
}
"""Their counterparts lead back to another word, or mean other things as well."""
_OF_MEN_ONE_WAY = {"bridegroom", "bridegrooms"}

AMBIGUOUS = _set(
    """
    bachelor bachelors bachelorette chick chicks count dame dames dude dudes fellow fellows god gods goddess goddesses
    host hosts king kings lord lords maid maiden maidens master masters mistress mistresses mummy pregnant pregnancy
    prince princes princess princesses queen queens spinster spinsters tomboy miss
    """
)
"""Gendered, or so in one of their meanings, and without a counterpart that always fits ("God bless", "Larry King"):
left as they are."""


def _pairs(table: str) -> list[tuple[str, str]]:
    return [(a, b) for a, b in (entry.split() for entry in table.split(","))]


NAMES = _pairs(_NAMES)
OF_MEN = dict((*_pairs(_BOTH_WAYS), *NAMES)) | {w: _ONE_WAY[w] for w in _OF_MEN_ONE_WAY}
"""Words that speak of men, and their counterparts; `his` is not among them, which has two."""
OF_WOMEN = {b: a for a, b in (*_pairs(_BOTH_WAYS), *NAMES) if b != "her"} | {"hers": "his"}
OF_WOMEN |= {w: c for w, c in _ONE_WAY.items() if w not in _OF_MEN_ONE_WAY}
"""And the other way round; `her` is not among them, which has two."""

_NOT_IN_COMPOUNDS = {name for pair in NAMES for name in pair} | _set("he she him hers himself herself mr mrs ms")
_BESIDE = _set("all and be co ex foster grand great half in law non only step to vice")
IN_COMPOUNDS = ({*OF_MEN, *OF_WOMEN} - _NOT_IN_COMPOUNDS) | _BESIDE
"""A word with a hyphen beside it is swapped if every part is one of these ("ex-wife", "mother-in-law", "father-son"),
and left if not ("man-made", "he-man", "Mary-Kate")."""

CLOSED = _set(
    """
    a an the this these those some any each no another both either neither such i me my you your we us our it its
    they them their he him his she her hers who whom whose which what myself yourself himself herself itself
    ourselves themselves something anything everything nothing someone anyone everyone somebody anybody everybody
    none about above across after against along among amid around as at before behind below beneath beside besides
    between beyond by concerning despite during except for from in inside into like near of off on onto out outside
    over past regarding since than through throughout till to toward towards under underneath until unto up upon via
    with within without and or but nor so yet because although though if unless while whilst whereas when whenever
    where wherever how why whether that lest is was are were am be been being do does did has have had will would
    can could shall should may might must cannot
    """
)
"""What cannot begin a noun: before these, `her` is `him`, and `his` is `hers`."""

OBJECT_BEFORE = _set(
    """
    again ago alike alive alone already also altogether always anymore anyway anywhere apart aside asleep away awake
    better down else elsewhere enough even ever everywhere far first-hand forever forth forward further here hither
    immediately indeed instead just later less maybe more much never not now nowhere often once otherwise perhaps
    please quite rather really round safe seriously sometimes somehow somewhere soon still straight then there
    thither thus today together tomorrow tonight too twice upstairs downstairs well worse yesterday every all
    afterwards justice goodbye abroad ahead aloud almost closer nearer farewell hostage insane several came comes
    don doesn didn gives isn makes seemed seems stood wasn won wouldn couldn went being coming doing getting going
    having knowing looking making putting saying sitting standing taking talking trying using waiting walking
    wearing
    """
)
"""Adverbs and others before which `her` is more often `him`; `his` is `her` there, since a noun is to come."""

BUT_NOT_BEFORE = frozenset({"known", "being", "own"})
"""Unless these come next: "her well known films"."""
COMPARED = frozenset({"more", "less", "better", "worse", "later", "further"})
"""Those that may belong to a noun: "her later films", but "loved her more than"."""
PERCEIVED = _set(
    """
    let lets letting make makes made making help helps helped helping see sees saw seen seeing hear hears heard
    hearing watch watches watched watching have has had having feel feels felt bid bade keep keeps kept leave leaves
    left find finds found catch caught catches bids
    """
)
"""Verbs that take a person and what that person does: `saw her leave`, `kept her waiting`."""
DEEDS = _set(
    """
    be become begin believe breathe bring call carry come cry dance die do drink drive eat enter explain fall feel
    fight find finish follow forget get give go grow hear hold keep know laugh learn leave lie live look lose make
    marry move pass pay play put read realize remember ride run say see seem sell send sing sit sleep smile speak
    stand start stay stop suffer take talk tell think throw try turn understand use wait walk want watch win wonder
    work write laughing act appear ask escape kill perform rise solve wear crying dying eating fighting leaving
    lying running sleeping dancing singing playing reading working smiling holding happy sad angry mad uncomfortable
    uneasy nervous sick free busy dead guilty responsible
    """
)
"""What may follow there in the place of a noun."""
GIVING = _set(
    """
    give gives gave given giving offer offers offered offering send sends sent sending show shows showed shown
    showing tell tells told telling teach teaches taught teaching hand hands handed handing lend lends lent grant
    grants granted wish wishes wished wishing pay pays paid paying owe owes owed bring brings brought buy buys
    bought cost costs charge charges charged ask asks asked asking promise promises promised allow allows allowed
    cause caused do did
    """
)
"""Verbs that take a person and a thing: `gave her advice`."""
THINGS = _set(
    """
    access advice anything assistance bad comfort credit directions extra feedback food good great happy harm help
    hope information instructions justice lots luck many medical medicine medication more money new one permission
    pleasure plenty several shelter something stories strength ten time trouble two three four five six water pain
    """
)
"""What may be given without an article."""
