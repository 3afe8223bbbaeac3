#include "textflag.h"

// func scatterFMA(x *float64, index *int32, value *float64, count int, v *float64)
TEXT ·scatterFMA(SB), NOSPLIT, $0-40
	MOVQ x+0(FP), DI
	MOVQ index+8(FP), SI
	MOVQ value+16(FP), DX
	MOVQ count+24(FP), R8
	MOVQ v+32(FP), R9
	VMOVUPD (R9), Y0
	VMOVUPD 32(R9), Y1
	XORQ CX, CX

entry:
	MOVLQSX (SI)(CX*4), AX
	SHLQ $6, AX
	VBROADCASTSD (DX)(CX*8), Y2
	VMOVUPD (DI)(AX*1), Y3
	VMOVUPD 32(DI)(AX*1), Y4
	VFNMADD231PD Y0, Y2, Y3
	VFNMADD231PD Y1, Y2, Y4
	VMOVUPD Y3, (DI)(AX*1)
	VMOVUPD Y4, 32(DI)(AX*1)
	INCQ CX
	CMPQ CX, R8
	JLT  entry
	VZEROUPPER
	RET

// func gatherFMA(x *float64, index *int32, value *float64, count int, v *float64)
TEXT ·gatherFMA(SB), NOSPLIT, $0-40
	MOVQ x+0(FP), DI
	MOVQ index+8(FP), SI
	MOVQ value+16(FP), DX
	MOVQ count+24(FP), R8
	MOVQ v+32(FP), R9
	VMOVUPD (R9), Y0
	VMOVUPD 32(R9), Y1
	VXORPD Y5, Y5, Y5
	VXORPD Y6, Y6, Y6
	XORQ CX, CX
	MOVQ R8, R10
	SUBQ $1, R10
	CMPQ CX, R10
	JGE  odd

pair:
	MOVLQSX (SI)(CX*4), AX
	MOVLQSX 4(SI)(CX*4), BX
	SHLQ $6, AX
	SHLQ $6, BX
	VBROADCASTSD (DX)(CX*8), Y2
	VBROADCASTSD 8(DX)(CX*8), Y3
	VFNMADD231PD (DI)(AX*1), Y2, Y0
	VFNMADD231PD 32(DI)(AX*1), Y2, Y1
	VFNMADD231PD (DI)(BX*1), Y3, Y5
	VFNMADD231PD 32(DI)(BX*1), Y3, Y6
	ADDQ $2, CX
	CMPQ CX, R10
	JLT  pair

odd:
	CMPQ CX, R8
	JGE  done
	MOVLQSX (SI)(CX*4), AX
	SHLQ $6, AX
	VBROADCASTSD (DX)(CX*8), Y2
	VFNMADD231PD (DI)(AX*1), Y2, Y0
	VFNMADD231PD 32(DI)(AX*1), Y2, Y1

done:
	VADDPD Y5, Y0, Y0
	VADDPD Y6, Y1, Y1
	VMOVUPD Y0, (R9)
	VMOVUPD Y1, 32(R9)
	VZEROUPPER
	RET

// The arguments of a kernel of 3 x 3 blocks: v in Y0 to Y5, a row in two registers.
#define ARGUMENTS3 \
	MOVQ x+0(FP), DI; \
	MOVQ index+8(FP), SI; \
	MOVQ value+16(FP), DX; \
	MOVQ count+24(FP), R8; \
	MOVQ v+32(FP), R9; \
	VMOVUPD (R9), Y0; \
	VMOVUPD 32(R9), Y1; \
	VMOVUPD 64(R9), Y2; \
	VMOVUPD 96(R9), Y3; \
	VMOVUPD 128(R9), Y4; \
	VMOVUPD 160(R9), Y5; \
	XORQ CX, CX

// A row of x_r, at AX, in two registers.
#define ROW(at, a, b) \
	VMOVUPD (at)(DI)(AX*1), a; \
	VMOVUPD (at+32)(DI)(AX*1), b

// (a, b) -= l (c, d) for an entry l of the block.
#define LESS(at, l, a, b, c, d) \
	VBROADCASTSD at(DX), l; \
	VFNMADD231PD c, l, a; \
	VFNMADD231PD d, l, b

// Row r of a block: x_r -= l v.
#define SCATTER3(row, at, a, b) \
	ROW(row, a, b); \
	LESS(at, Y8, a, b, Y0, Y1); \
	LESS((at+8), Y9, a, b, Y2, Y3); \
	LESS((at+16), Y14, a, b, Y4, Y5); \
	VMOVUPD a, (row)(DI)(AX*1); \
	VMOVUPD b, (row+32)(DI)(AX*1)

// Row r of a block: v -= l* x_r.
#define GATHER3(row, at, a, b) \
	ROW(row, a, b); \
	LESS(at, Y8, Y0, Y1, a, b); \
	LESS((at+8), Y9, Y2, Y3, a, b); \
	LESS((at+16), Y14, Y4, Y5, a, b)

// func scatterFMA3(x *float64, index *int32, value *float64, count int, v *float64)
TEXT ·scatterFMA3(SB), NOSPLIT, $0-40
	ARGUMENTS3

entry:
	MOVLQSX (SI)(CX*4), AX
	IMULQ   $192, AX
	SCATTER3(0, 0, Y6, Y7)
	SCATTER3(64, 24, Y10, Y11)
	SCATTER3(128, 48, Y12, Y13)
	ADDQ $72, DX
	INCQ CX
	CMPQ CX, R8
	JLT  entry
	VZEROUPPER
	RET

// func gatherFMA3(x *float64, index *int32, value *float64, count int, v *float64)
TEXT ·gatherFMA3(SB), NOSPLIT, $0-40
	ARGUMENTS3

entry:
	MOVLQSX (SI)(CX*4), AX
	IMULQ   $192, AX
	GATHER3(0, 0, Y6, Y7)
	GATHER3(64, 24, Y10, Y11)
	GATHER3(128, 48, Y12, Y13)
	ADDQ $72, DX
	INCQ CX
	CMPQ CX, R8
	JLT  entry
	VMOVUPD Y0, (R9)
	VMOVUPD Y1, 32(R9)
	VMOVUPD Y2, 64(R9)
	VMOVUPD Y3, 96(R9)
	VMOVUPD Y4, 128(R9)
	VMOVUPD Y5, 160(R9)
	VZEROUPPER
	RET
